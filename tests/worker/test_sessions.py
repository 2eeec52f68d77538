"""Sessions of a key that are combined before the shuffle."""

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms.combiners import MeanCombineFn
from apache_beam.transforms.window import Sessions, TimestampedValue
from in_process import CORES
from noting import noted, values

from sparkbeam.worker.keyed_aggregates import KeyedAggregates
from sparkbeam.worker.row_formats.aggregate_rows import SessionSink
from sparkbeam.worker.row_formats.row_writer import Batch


class Texts(beam.CombineFn):
    """The largest of lists that somebody may change."""

    def create_accumulator(self) -> list[str]:
        return [""]

    def add_input(self, accumulator: list[str], element: list[str]) -> list[str]:
        return list(max(accumulator, element))

    def merge_accumulators(self, accumulators: Any) -> list[str]:
        return max(accumulators)

    def extract_output(self, accumulator: list[str]) -> str:
        return accumulator[0]


def test_values_that_may_change_do_not_wait() -> None:
    def lists(pair: tuple[int, int]) -> Any:
        reused = [""]
        for number in range(3):
            reused[0] = str(number * pair[1])
            yield TimestampedValue((pair[0], reused), pair[1])

    def build(p: beam.Pipeline) -> Any:
        pairs = p | beam.Create([(1, 2), (1, 3), (2, 50)]) | beam.FlatMap(lists)
        pairs = pairs | beam.Map(lambda pair: pair) | beam.WindowInto(Sessions(10))
        return pairs | beam.CombinePerKey(Texts())

    found = values(build, "--session_aggregator=columnar")
    assert sorted(found) == [(1, "6"), (2, "50")]


@pytest.mark.blocks(reason="Beam's own combine adds up what has the same window")
@pytest.mark.parametrize("fn", [sum, MeanCombineFn()])
def test_one_accumulator_for_each_session_is_shuffled(
    fn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    write = SessionSink.write

    def counted(self: SessionSink, batch: Batch) -> None:
        assert isinstance(batch, KeyedAggregates)
        written.append(len(batch))
        write(self, batch)

    def build(p: beam.Pipeline) -> Any:
        numbers = p | beam.Create([(number % 3, number) for number in range(150)])
        in_time = numbers | beam.Map(lambda pair: TimestampedValue(pair, pair[1] + 0.5))
        return in_time | beam.WindowInto(Sessions(1000)) | beam.CombinePerKey(fn)

    monkeypatch.setattr(SessionSink, "write", counted)
    assert len(noted(build)) == 3
    assert 3 <= sum(written) <= 3 * CORES

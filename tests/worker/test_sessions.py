"""Sessions of a key that are combined before the shuffle."""

import random
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.combiners import CountCombineFn, MeanCombineFn
from apache_beam.transforms.window import Sessions, TimestampCombiner, TimestampedValue
from in_process import CORES
from in_process_batch import BatchRunner
from noting import noted, values

from sparkbeam.worker.keyed_aggregates import KeyedAggregates
from sparkbeam.worker.row_formats.aggregate_rows import SessionSink
from sparkbeam.worker.row_formats.row_writer import Batch
from sparkbeam.worker.steps import column_tables, combines


def combined(runner: Any, windowing: beam.WindowInto, fn: Any, how: str = "auto") -> list[str]:
    """What 150 numbers come to by key and session, with all that belongs to it."""
    choice = random.Random(3)
    numbers = [(choice.randrange(3), choice.randrange(200)) for _ in range(150)]
    in_time = beam.Map(lambda pair: TimestampedValue(pair, pair[1] + 0.5))
    return noted(
        lambda p: p | beam.Create(numbers) | in_time | windowing | beam.CombinePerKey(fn),
        f"--session_aggregator={how}",
        runner=runner,
    )


@pytest.mark.part(4)
@pytest.mark.parametrize("how", ["canonical", "ordered", "columnar"])
@pytest.mark.parametrize(
    ("combiner", "fn"),
    [
        (TimestampCombiner.OUTPUT_AT_EOW, MeanCombineFn()),
        (TimestampCombiner.OUTPUT_AT_EARLIEST, sum),
        (TimestampCombiner.OUTPUT_AT_LATEST, CountCombineFn()),
    ],
)
def test_they_are_those_of_beams_own_runner(
    combiner: Any, fn: Any, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (combines, column_tables):  # So that they are put out in parts.
        monkeypatch.setattr(module, "MAX_KEYS", 5)
    windowing = beam.WindowInto(Sessions(2), timestamp_combiner=combiner)
    expected = combined(FnApiRunner(), windowing, fn)
    assert combined(BatchRunner(), windowing, fn, how) == expected
    assert len(expected) > 20


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

    def noted(self: SessionSink, batch: Batch) -> None:
        assert isinstance(batch, KeyedAggregates)
        written.append(len(batch))
        write(self, batch)

    monkeypatch.setattr(SessionSink, "write", noted)
    assert len(combined(BatchRunner(), beam.WindowInto(Sessions(1000)), fn)) == 3
    assert 3 <= sum(written) <= 3 * CORES

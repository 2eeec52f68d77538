"""What a small task of a batch puts out."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to
from in_process_batch import BatchRunner

from sparkbeam.worker.batch.stage import StageTask


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many batches each task has put out."""
    counts = []
    run = StageTask.__call__

    def counting(self: StageTask, given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count = 0
        for batch in run(self, given):
            count += 1
            yield batch
        counts.append(count)

    monkeypatch.setattr(StageTask, "__call__", counting)
    return counts


class Keeping(beam.DoFn):
    COUNT = beam.transforms.userstate.CombiningValueStateSpec("count", combine_fn=sum)

    def process(self, element: tuple[int, int], count: Any = beam.DoFn.StateParam(COUNT)) -> Any:
        count.add(element[1])
        yield element[0], count.read()


def test_rows_and_report_are_one_batch(batches: list[int]) -> None:
    with beam.Pipeline(BatchRunner()) as p:
        pairs = p | beam.Create([(n % 3, n) for n in range(10)])
        sums = pairs | beam.GroupByKey() | beam.MapTuple(lambda key, values: (key, sum(values)))
        counts = pairs | beam.ParDo(Keeping()) | beam.Reshuffle() | beam.CombinePerKey(max)
        assert_that(sums, equal_to([(0, 18), (1, 12), (2, 15)]), "sums")
        assert_that(counts, equal_to([(0, 18), (1, 12), (2, 15)]), "counts")
    assert len(batches) > 8
    assert {*batches} == {1}

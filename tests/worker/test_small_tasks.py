"""What a small task of a batch puts out."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to
from in_process_batch import BatchRunner

from sparkbeam.wire.rows import RowBuffer
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


def test_few_rows_wait_for_others_and_many_do_not() -> None:
    out: list[pa.RecordBatch] = []
    rows = RowBuffer(out.append)

    def extend(count: int, size: int) -> None:
        cells = pa.array([bytes([65 + n % 3]) * size for n in range(count)], pa.binary())
        keys = pa.array([b"k%d" % n for n in range(count)], pa.binary())
        rows.extend_columns(count, keys, np.arange(count), cells)

    extend(3, 5)
    rows.append(-1, None, 0, b"report")
    extend(2, 7)
    assert not out
    extend(2, 1 << 17)
    extend(1000, 1)
    rows.flush()
    assert [batch.num_rows for batch in out] == [6, 2, 1000]
    assert out[0].to_pydict() == {
        "tag": [3, 3, 3, -1, 2, 2],
        "key": [b"k0", b"k1", b"k2", None, b"k0", b"k1"],
        "ord": [0, 1, 2, 0, 0, 1],
        "value": [b"AAAAA", b"BBBBB", b"CCCCC", b"report", b"AAAAAAA", b"BBBBBBB"],
    }

"""An element that Spark cannot hold is told before it gets there: step, size and remedy."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import failing
import pytest

from sparkbeam import PipelineFailed
from sparkbeam.spark import session
from sparkbeam.wire import heap
from sparkbeam.wire.heap import Heap, RowTooLarge
from sparkbeam.wire.rows import BATCH_BYTES, RowBuffer

MIB = 1 << 20


def failure_of(streaming: bool, size: int, shuffle: Any, folder: Path) -> PipelineFailed:
    def build(pipeline: beam.Pipeline) -> None:
        make = beam.Map(lambda size: ("key", bytes(size))).with_output_types(tuple[str, bytes])
        made = pipeline | beam.Create([size]) | "Make" >> make
        _ = made | "Shuffle" >> shuffle | "Last" >> beam.Map(len)

    error: PipelineFailed = failing.failure_of(streaming, build, folder)
    return error


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("shuffle", [beam.GroupByKey(), beam.Reshuffle()])
def test_an_element_that_the_heap_does_not_hold(
    streaming: bool, shuffle: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "heap", lambda _: Heap(10 * MIB, "spark.driver.memory"))
    error = failure_of(streaming, 6 * MIB, shuffle, tmp_path)
    assert error.label == "Make"
    text = str(error)
    assert "Step 'Make' failed: an element of 6 MiB is too large for Spark's JVM" in text
    assert "10 MiB of memory (spark.driver.memory)" in text
    assert "--spark_conf=spark.driver.memory=1g" in text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize("streaming", [False, True])
def test_an_element_that_no_row_holds(
    streaming: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heap, "_LARGEST", 5 * MIB)
    error = failure_of(streaming, 6 * MIB, beam.Reshuffle(), tmp_path)
    assert error.label == "Make"
    assert "an element of 6 MiB is too large: Spark accepts less than 2 GiB per row" in str(error)


def test_what_fits_is_let_through() -> None:
    Heap(100 * MIB).check([50 * MIB])
    Heap().check([2000 * MIB])
    with pytest.raises(RowTooLarge, match=r"2\.1 GiB"):
        Heap().check([2200 * MIB])
    with pytest.raises(RowTooLarge, match=r"spark\.executor\.memory=4g"):
        Heap(100 * MIB).check([400 * MIB])


def test_rows_that_do_not_go_through_the_jvm_need_no_heap() -> None:
    batches: list[Any] = []
    for rows in (RowBuffer(batches.append), RowBuffer(batches.append, Heap(20 * MIB))):
        rows.append(1, b"key", 0, bytes(9 * MIB))
    with pytest.raises(RowTooLarge):
        RowBuffer(batches.append, Heap(10 * MIB)).append(1, b"key", 0, bytes(9 * MIB))
    assert len(batches) == 2


def test_many_large_rows_are_many_batches() -> None:
    batches: list[Any] = []
    rows = RowBuffer(batches.append)
    values = [bytes(MIB) for _ in range(10)]
    rows.extend(1, [b"key"] * 10, list(range(10)), values)
    rows.flush()
    assert sum(batch.num_rows for batch in batches) == 10
    assert all(batch.nbytes < 2 * BATCH_BYTES for batch in batches)


@pytest.mark.parametrize(
    ("given", "size"),
    [("4g", 4 << 30), ("512m", 512 * MIB), ("512", 512 * MIB), ("1T", 1 << 40), ("x", None)],
)
def test_the_memory_of_executors_is_that_of_spark(given: str, size: int | None) -> None:
    conf = {"spark.master": "spark://host:7077", "spark.executor.memory": given}
    assert session.heap(SimpleNamespace(conf=conf)) == Heap(size, "spark.executor.memory")

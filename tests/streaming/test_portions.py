"""How much of a source of Spark's the first layer of a streaming query processes at once."""

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.coders import coders
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows

from sparkbeam import SparkRunner
from sparkbeam.io import ReadFromSpark
from sparkbeam.options import spark_options
from sparkbeam.plan.layers import topology
from sparkbeam.wire.failure import FailureReports, WorkerFailure
from sparkbeam.wire.messages import Message, unpack
from sparkbeam.wire.rows import COUNT_CELL
from sparkbeam.worker.row_formats.aggregate_cells import AggregateCell
from sparkbeam.worker.row_formats.cells import KeyCells
from sparkbeam.worker.streaming import layer
from sparkbeam.worker.streaming.layer import SourceLayerRun
from sparkbeam.worker.streaming.tasks import layer_tasks

BATCHES, ROWS, KEYS = 30, 10_000, 5

HEADS = KeyCells(coders.WindowedValueCoder(coders.VarIntCoder(), coders.IntervalWindowCoder()))
NUMBER = np.dtype(np.int64)

REPORTS = FailureReports()


def counts(rows: Any) -> None:
    """A combine, which the first layer begins."""
    windowed = rows | beam.WindowInto(FixedWindows(10))
    _ = windowed | beam.Map(lambda row: (row.value % KEYS, 1)) | beam.CombinePerKey(sum)


def spread(rows: Any) -> None:
    """Puts out what it reads."""
    _ = rows | beam.Map(lambda row: 10 * str(row.value)) | beam.Reshuffle() | beam.Map(print)


def read(build: Callable[[Any], None], batches: Iterator[pa.RecordBatch]) -> list[list[Message]]:
    """The messages of the first layer, as they leave it together."""
    runner = SparkRunner(None)
    p = beam.Pipeline(runner, options=PipelineOptions(["--streaming"]))
    build(p | ReadFromSpark("rate", {}, columns=["value"], timestamp_column="timestamp"))
    plan = runner._plan(p, spark_options.checked(p.options))
    first, *_ = layer_tasks(uuid.uuid4().hex, topology(plan), (0, 1), reports=REPORTS)
    (source,) = plan.sources
    ((_, tag),) = source.outputs
    turn = SourceLayerRun(first)
    taken: list[list[Message]] = []
    take = turn._drain_output

    def noted() -> list[Message]:
        taken.append(take())
        return taken[-1]

    turn._drain_output = noted  # type: ignore[method-assign]
    spec = source.read
    assert spec is not None
    # The step that a thread is at stays known in it.
    with ThreadPoolExecutor(1) as task:
        task.submit(lambda: list(turn.read("the source", spec, tag, batches))).result()
    return [some for some in taken if any(message.tag >= 0 for message in some)]


def rows(*, last: int | None = 0) -> Iterator[pa.RecordBatch]:
    """As Spark gives them, the last one with a timestamp of its own."""
    for number in range(BATCHES):
        times = [0] * (ROWS - 1) + [last if number == BATCHES - 1 else 0]
        values = range(number * ROWS, (number + 1) * ROWS)
        columns = [pa.array(values, pa.int64()), pa.array(times, pa.int64())]
        yield pa.record_batch(columns, names=["value", "timestamp"])


def cells(messages: list[list[Message]]) -> list[Any]:
    return [
        row for some in messages for sent in some if sent.tag >= 0 for row in unpack(sent.value)
    ]


def test_a_combine_adds_up_all_that_its_task_reads() -> None:
    found = [cell for _, _, cell in cells(read(counts, rows())) if cell[:1] != COUNT_CELL]
    totals = [AggregateCell.unpacked(cell, HEADS.head_of(cell)[0], NUMBER) for cell in found]
    keys = [key for total in totals for key in total.keys.to_pylist()]
    assert len(keys) == len(set(keys)) == KEYS
    assert {number for total in totals for number in total.numbers} == {BATCHES * ROWS // KEYS}


def test_output_leaves_the_layer_when_it_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = read(spread, rows())
    monkeypatch.setattr(layer, "_OUTPUT_BYTES", 100_000)
    by_and_by = read(spread, rows())
    assert len(by_and_by) > len(at_once)
    sizes = [
        sum(len(sent.value) for some in messages for sent in some)
        for messages in (at_once, by_and_by)
    ]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.05)


def test_the_source_is_to_blame_for_what_it_gives() -> None:
    with pytest.raises(WorkerFailure, match="'timestamp' has a null") as failed:
        read(counts, rows(last=None))
    report = REPORTS.find(str(failed.value))
    assert report is not None
    assert report.label == "the source"

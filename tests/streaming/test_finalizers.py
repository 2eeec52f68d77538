"""Bundle finalizers run once a micro-batch is committed, and not before."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.testing.test_stream import TestStream
from in_process import Crashes, Point, Spark, streaming_pipeline
from numbers_sink import write_numbers, written
from queueing import QUEUE, ReadQueue

from sparkbeam.errors import PipelineFailed
from sparkbeam.streaming import callbacks
from sparkbeam.streaming.callbacks import Callbacks
from sparkbeam.wire.messages import Finalizers

pytestmark = pytest.mark.usefixtures("by_value")


MESSAGES = 7
CRASHING = 4
"""In so many micro-batches: each crash loses the callbacks of the one before."""


def run(spark: Spark, folder: Path) -> None:
    """Reads the queue into a file for each micro-batch that has numbers."""
    checkpoint = str(folder / "checkpoint")
    QUEUE.committed = lambda: spark.checkpoints[checkpoint].commits
    with streaming_pipeline(spark, checkpoint) as p:
        _ = (
            p
            | beam.Create(["queue"], reshuffle=False)
            | beam.ParDo(ReadQueue()).with_output_types(int)
            | beam.Reshuffle()
            | write_numbers(folder)
        )


def test_a_queue_is_read_once_and_is_empty_then(tmp_path: Path) -> None:
    QUEUE.fill(MESSAGES)
    run(Spark(), tmp_path)
    assert sorted(written(tmp_path)) == list(range(MESSAGES))
    assert (len(QUEUE), QUEUE.early) == (0, 0)


def test_nothing_of_a_queue_is_lost_wherever_the_query_ends(tmp_path: Path) -> None:
    QUEUE.fill(MESSAGES)
    crashes = Crashes()

    def crash(point: Point) -> None:
        if point[0] < CRASHING and point not in crashes.points:
            QUEUE.time_out()
            crashes(point)

    spark = Spark(crash, repeatable=False)
    crashes.until_it_ends(lambda: run(spark, tmp_path))
    assert len(crashes.points) > 10
    assert set(written(tmp_path)) == set(range(MESSAGES))
    assert (len(QUEUE), QUEUE.early) == (0, 0)


def test_a_finalizer_of_the_last_micro_batch_runs_and_one_of_a_failed_does_not(
    tmp_path: Path,
) -> None:
    calls = tmp_path / "calls"

    class Noting(beam.DoFn):
        def process(
            self, element: int, finalizer: Any = beam.DoFn.BundleFinalizerParam
        ) -> Iterator[int]:
            finalizer.register(lambda: calls.open("a").write(f"{element} "))
            yield element

    spark = Spark(Crashes((0, "sink")))

    def run_once() -> None:
        with streaming_pipeline(spark, tmp_path / "c") as p:
            events = TestStream(coder=VarIntCoder()).add_elements([1, 2])
            _ = p | events.advance_watermark_to_infinity() | beam.ParDo(Noting())

    with pytest.raises(PipelineFailed):
        run_once()
    assert not calls.exists()
    run_once()
    assert calls.read_text() == "1 2 "


def test_callbacks_of_a_worker_that_has_ended_are_given_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waiting = Callbacks(["lost"])
    waiting.after([Finalizers(kept="called")])
    assert list(waiting.waiting) == ["lost", "called"]
    waiting.after([Finalizers(called=("called",))])
    assert list(waiting.waiting) == ["lost"]
    for _ in range(callbacks._PATIENCE):
        waiting.after([])
    assert not waiting.waiting
    (record,) = caplog.records
    assert "workers of 1 tasks" in record.getMessage()

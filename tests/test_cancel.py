"""``cancel()`` stops the pipeline and its Spark work, and nothing else."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.runner import PipelineState
from waiting import until

from sparkbeam import SparkBeamOptions, SparkPipelineResult, SparkRunner
from sparkbeam.batch.side_input_collection import SideInputStore
from sparkbeam.plan.model import SideInput
from sparkbeam.spark.cancellation import Cancellation
from sparkbeam.wire.side_content import SideInputData

WAIT_SECONDS = 150
ENDLESS = 50_000


def pipeline(spark: Any) -> beam.Pipeline:
    return beam.Pipeline(SparkRunner(spark), SparkBeamOptions([]))


def slow(signs: Path) -> beam.PTransform:
    """Leaves a sign of each element, and takes its time."""

    # A function of the module would have to be imported by the workers.
    class Slow(beam.DoFn):
        def process(self, element: int, side: Any = None) -> Iterator[int]:
            with signs.open("a") as file:
                file.write(".")
            time.sleep(0.05)
            yield element

    return beam.ParDo(Slow())


def size(signs: Path) -> int:
    return signs.stat().st_size if signs.exists() else 0


def is_still(signs: Path) -> bool:
    before = size(signs)
    time.sleep(0.5)
    return size(signs) == before


def active_jobs(spark: Any) -> list[int]:
    return list(spark.sparkContext.statusTracker().getActiveJobsIds())


@pytest.fixture
def signs(tmp_path: Path) -> Path:
    return tmp_path / "signs"


def started(spark: Any, signs: Path) -> SparkPipelineResult:
    """A pipeline in the middle of its work, which would take hours."""
    p = pipeline(spark)
    _ = p | beam.Create(range(ENDLESS)) | slow(signs) | beam.combiners.Count.Globally()
    result: Any = p.run()
    until(lambda: size(signs) > 0)
    return result


@pytest.fixture
def endless(spark: Any, signs: Path) -> Iterator[SparkPipelineResult]:
    result = started(spark, signs)
    yield result
    result.cancel()


def test_the_spark_work_ends_with_the_pipeline(spark: Any, signs: Path) -> None:
    result = started(spark, signs)
    assert result.cancel() == PipelineState.CANCELLED
    assert active_jobs(spark) == []
    until(lambda: is_still(signs))
    assert result.state == PipelineState.CANCELLED
    assert result.wait_until_finish() == PipelineState.CANCELLED
    assert result.cancel() == PipelineState.CANCELLED
    assert result.monitoring_infos() == [], "no metrics are committed"


def test_who_waits_learns_that_the_pipeline_was_cancelled(endless: SparkPipelineResult) -> None:
    assert endless.wait_until_finish(duration=100) == PipelineState.RUNNING
    assert endless.state == PipelineState.RUNNING
    states: list[str] = []
    waiting = threading.Thread(target=lambda: states.append(endless.wait_until_finish()))
    waiting.start()
    endless.cancel()
    waiting.join(WAIT_SECONDS)
    assert states == [PipelineState.CANCELLED]


def test_the_session_and_its_other_work_go_on(
    spark: Any, endless: SparkPipelineResult, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"

    def hold(element: int) -> int:
        while not gate.exists():
            time.sleep(0.05)
        return element

    p = pipeline(spark)
    _ = p | beam.Create([1, 2, 3]) | beam.Map(hold)
    other = p.run()

    endless.cancel()
    gate.touch()

    assert other.wait_until_finish() == PipelineState.DONE
    assert spark.range(3).count() == 3


def test_a_finished_pipeline_stays_done(spark: Any) -> None:
    p = pipeline(spark)
    _ = p | beam.Create([1])
    result = p.run()
    result.wait_until_finish()
    assert result.cancel() == PipelineState.DONE


def side_input_chain(spark: Any, signs: Path, last: Path, elements: int) -> SparkPipelineResult:
    """A slow step whose output is a side input of another."""
    p = pipeline(spark)
    side = p | "Elements" >> beam.Create(range(elements)) | slow(signs)
    _ = (
        p
        | beam.Create(["done"])
        | "Last" >> beam.Map(lambda text, _: last.write_text(text), beam.pvalue.AsIter(side))
    )
    result: Any = p.run()
    return result


def test_while_a_side_input_is_collected_no_later_job_starts(
    spark: Any, signs: Path, tmp_path: Path
) -> None:
    last = tmp_path / "last"
    result = side_input_chain(spark, signs, last, ENDLESS)
    until(lambda: size(signs) > 0)

    assert result.cancel() == PipelineState.CANCELLED
    assert active_jobs(spark) == []
    until(lambda: is_still(signs))
    assert not last.exists()


def test_between_two_jobs_the_next_one_does_not_start(
    spark: Any, signs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    between, interrupted = threading.Event(), threading.Event()
    data, interrupt = SideInputStore.data, Cancellation.interrupt

    def wait_with_data(store: SideInputStore, side_input: SideInput) -> SideInputData:
        between.set()
        interrupted.wait(WAIT_SECONDS)
        return data(store, side_input)

    def interrupt_noted(cancellation: Cancellation) -> None:
        interrupt(cancellation)
        interrupted.set()

    monkeypatch.setattr(SideInputStore, "data", wait_with_data)
    monkeypatch.setattr(Cancellation, "interrupt", interrupt_noted)
    last = tmp_path / "last"
    result = side_input_chain(spark, signs, last, 1)
    assert between.wait(WAIT_SECONDS)

    assert result.cancel() == PipelineState.CANCELLED
    assert not last.exists()

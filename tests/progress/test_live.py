"""Progress of pipelines that run on Spark."""

import _thread
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.metrics import Metrics
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.transforms.window import FixedWindows
from terminals import Terminal
from waiting import until

from sparkbeam import PipelineFailed, SparkBeamOptions, SparkPipelineResult, SparkRunner
from sparkbeam.observe.figures.progress import StageProgress, StageState, StreamingProgress


def pipeline(spark: Any, *options: str) -> beam.Pipeline:
    return beam.Pipeline(SparkRunner(spark), SparkBeamOptions([*options]))


def named(progress: Any, label: str) -> StageProgress:
    """The one stage whose labels include ``label``."""
    (stage,) = (stage for stage in progress.stages if label in stage.name.split(" + "))
    return stage


def hold(held: int, gate: Path) -> beam.PTransform:
    """Hands on elements; waits with a certain one until a file is there."""

    # A function of the module would have to be imported by the workers.
    class Hold(beam.DoFn):
        def process(self, element: int) -> Iterator[int]:
            while element == held and not gate.exists():
                time.sleep(0.05)
            yield element

    return beam.ParDo(Hold())


def test_figures_are_exact_at_the_end(spark: Any) -> None:
    class CountPerKey(beam.DoFn):
        COUNT = ReadModifyWriteStateSpec("count", beam.coders.VarIntCoder())

        def process(
            self, element: tuple[int, int], count: Any = beam.DoFn.StateParam(COUNT)
        ) -> Iterator[int]:
            count.write((count.read() or 0) + 1)
            yield count.read()

    p = pipeline(spark)
    (
        p
        | beam.Create(range(1000))
        | "Key" >> beam.Map(lambda x: (x % 10, x))
        | beam.GroupByKey()
        | "Values" >> beam.FlatMap(lambda group: group[1])
        | beam.Reshuffle()
        | "Last" >> beam.Map(str)
    )
    pairs = [(key, value) for key in range(3000) for value in range(2)]
    _ = p | "Pairs" >> beam.Create(pairs) | "Stateful" >> beam.ParDo(CountPerKey())
    result: Any = p.run()
    result.wait_until_finish()
    progress = result.progress()
    assert {stage.state for stage in progress.stages} == {StageState.DONE}
    assert all(stage.tasks_done == stage.tasks_started > 0 for stage in progress.stages)
    assert sum(stage.tasks_failed for stage in progress.stages) == 0
    elements = {
        label: (named(progress, label).elements, named(progress, label).busiest)
        for label in ("Key", "Values", "Last", "Stateful")
    }
    assert elements["Key"][0] == elements["Last"][0] == 1000
    assert elements["Values"] == (10, 1000)
    assert elements["Stateful"][0] == 6000, "those of all bundles"


def test_an_element_that_is_deferred_counts_once(spark: Any) -> None:
    class OneAtATime(beam.DoFn, beam.RestrictionProvider):
        """Puts out a number and defers the rest."""

        def initial_restriction(self, element: int) -> OffsetRange:
            return OffsetRange(0, element)

        def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
            return OffsetRestrictionTracker(restriction)

        def restriction_size(self, element: int, restriction: OffsetRange) -> int:
            return restriction.size()

        @beam.DoFn.unbounded_per_element()
        def process(
            self, element: int, tracker: Any = beam.DoFn.RestrictionParam()
        ) -> Iterator[int]:
            position = tracker.current_restriction().start
            if tracker.try_claim(position):
                yield position
                tracker.defer_remainder()

    p = pipeline(spark)
    p | beam.Create([5]) | "Read" >> beam.ParDo(OneAtATime()) | "Seen" >> beam.Map(str)
    result: Any = p.run()
    result.wait_until_finish()
    stage = named(result.progress(), "Seen")
    assert (stage.elements, stage.busiest) == (1, 5)


def test_figures_move_while_the_pipeline_runs(spark: Any, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    p = pipeline(spark)
    (
        p
        | beam.Create(range(100), reshuffle=False)
        | "Hold" >> hold(60, gate)
        | beam.GroupBy(lambda x: x % 3)
        | "After" >> beam.Map(lambda group: group[0])
    )
    result: Any = p.run()
    try:
        until(lambda: named(result.progress(), "Hold").busiest >= 60)
        progress = result.progress()
    finally:
        gate.touch()
    assert named(progress, "Hold").state is StageState.RUNNING
    assert (named(progress, "Hold").tasks_started, named(progress, "Hold").tasks_done) == (1, 0)
    assert named(progress, "After").state is StageState.WAITING
    result.wait_until_finish()
    assert named(result.progress(), "After").state is StageState.DONE


def test_live_figures_agree_with_the_committed_ones(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    final = "sparkbeam.observe.collection.batch_tracker._TrackedStage.use_final_reports"
    monkeypatch.setattr(final, lambda *_: None)
    p = pipeline(spark)
    (
        p
        | beam.Create(range(1000))
        | "Key" >> beam.Map(lambda x: (x, x))
        | beam.GroupByKey()
        | "Out" >> (beam.Map(str))
    )
    result: Any = p.run()
    result.wait_until_finish()
    assert named(result.progress(), "Key").elements == 1000
    assert named(result.progress(), "Out").elements == 1000
    assert all(stage.tasks_done == stage.tasks_started for stage in result.progress().stages)


def test_a_failed_pipeline_tells_where_and_what_it_had_attempted(spark: Any) -> None:
    def fail_at_last(element: int) -> int:
        Metrics.counter("test", "seen").inc()
        if element == 9:
            raise ValueError("the last one")
        return element

    p = pipeline(spark)
    p | beam.Create(range(10), reshuffle=False) | "Fails" >> beam.Map(fail_at_last)
    result: Any = p.run()
    with pytest.raises(PipelineFailed):
        result.wait_until_finish()
    stage = named(result.progress(), "Fails")
    assert stage.state is StageState.FAILED
    assert stage.tasks_failed >= 1
    (counter,) = result.metrics().query()["counters"]
    assert counter.attempted == 10
    assert counter.committed is None


def test_figures_move_while_the_query_runs(spark: Any) -> None:
    p = pipeline(spark, "--streaming")
    (
        p
        | PeriodicImpulse(fire_interval=0.1)
        | beam.WindowInto(FixedWindows(1))
        | beam.Map(lambda stamp: (int(stamp) % 3, 1))
        | beam.CombinePerKey(sum)
        | "Counts" >> beam.Map(str)
    )
    result: Any = p.run()

    def progress() -> StreamingProgress:
        found = result.progress()
        assert isinstance(found, StreamingProgress)
        return found

    def counted(found: StreamingProgress) -> int:
        return named(found, "Counts").elements

    try:
        assert progress().state is StageState.WAITING
        until(lambda: counted(progress()) > 0, seconds=150)
        first = progress()
        until(lambda: counted(progress()) > counted(first), seconds=150)
        second = progress()
    finally:
        result.cancel()
    assert second.micro_batch > first.micro_batch
    assert second.per_second > 0
    assert second.batch_seconds > 0
    assert second.lag_seconds is not None
    of_sink = {"stages", "collecting", "feedback"}
    assert {
        "latestOffset",
        "walCommit",
        "addBatch",
        "commitOffsets",
    } | of_sink <= second.phases.keys()
    assert sum(second.phases[name] for name in of_sink) <= second.phases["addBatch"] + 0.001
    marks = [found.stages[-1].input_watermark for found in (first, second)]
    assert None not in marks
    assert marks[0] < marks[1]  # type: ignore[operator]
    assert progress().state is StageState.STOPPED


# The display.


def run_small(spark: Any, *options: str) -> SparkPipelineResult:
    p = pipeline(spark, *options)
    p | beam.Create(range(10)) | "Step" >> beam.Map(str)
    result: Any = p.run()
    result.wait_until_finish()
    return result


@pytest.mark.parametrize("option", ["auto", "off", "on"])
def test_without_a_terminal_lines_go_to_standard_error_if_they_are_asked_for(
    spark: Any, capfd: pytest.CaptureFixture[str], option: str
) -> None:
    run_small(spark, f"--spark_progress={option}")
    out, err = capfd.readouterr()
    assert out == ""
    if option == "on":
        assert "sparkbeam: 1 of 1 stages done after" in err.splitlines()[-1]
    else:
        assert "stages done" not in err


def test_a_terminal_shows_the_table(
    spark: Any, terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    monkeypatch.setenv("TERM", "xterm-256color")
    gate = tmp_path / "gate"
    p = pipeline(spark)
    p | beam.Create(range(10), reshuffle=False) | beam.Reshuffle() | "Hold" >> hold(9, gate)
    result = p.run()
    try:
        until(lambda: any("Hold" in line and "running" in line for line in terminal.lines))
    finally:
        gate.touch()
    result.wait_until_finish()
    lines = [line.split() for line in terminal.lines]
    assert lines[0][:4] == ["Create", "done", "1/1", "10"]
    assert lines[1][:2] == ["Hold", "done"]
    assert lines[2][:5] == ["2", "of", "2", "stages", "done"]


def test_an_interrupt_from_the_keyboard_clears_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkbeam.run.result.LEAVE_SECONDS", 0)
    cleared = threading.Event()
    result = SparkPipelineResult(lambda: None, None, interrupted=cleared.set)
    threading.Timer(0.2, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        result.wait_until_finish()
    assert cleared.is_set()


def test_progress_survives_a_machine_that_cannot_listen(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("no more ports")

    monkeypatch.setattr("sparkbeam.observe.collection.listener.Listener.__init__", refuse)
    progress = run_small(spark).progress()
    assert named(progress, "Step").elements == 10

"""How a pipeline without an end is brought to one; in process, and once on Spark."""

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.metrics import Metrics
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineState
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import CombiningValueStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Duration, Timestamp
from click.testing import CliRunner
from in_process import Crash, Crashes, Point, Spark, StreamingRunner
from waiting import until

from sparkbeam import SparkRunner
from sparkbeam.cli.commands import main
from sparkbeam.errors import ConfigurationError, PipelineFailed
from sparkbeam.run.result import SparkPipelineResult
from sparkbeam.streaming.checkpoint_files import LocalFiles
from sparkbeam.streaming.feedback import FeedbackFiles

# Some ask for the session as they run.
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("by_value")]

ENDLESS = sys.maxsize


class Endless(OffsetRestrictionTracker):
    def is_bounded(self) -> bool:
        return self._range.stop != ENDLESS


class Ranges(RestrictionProvider):
    """From 0 to the element; an endless one can be truncated to ten more, if it says so."""

    def __init__(self, more: int | None = None) -> None:
        self._more = more

    def initial_restriction(self, element: int) -> OffsetRange:
        return OffsetRange(0, element)

    def create_tracker(self, restriction: OffsetRange) -> Endless:
        return Endless(restriction)

    def restriction_size(self, element: int, restriction: OffsetRange) -> int:
        return int(restriction.size())

    def truncate(self, element: int, restriction: OffsetRange) -> OffsetRange | None:
        if self._more is None or restriction.stop != ENDLESS:
            found: OffsetRange | None = super().truncate(element, restriction)
            return found
        return OffsetRange(restriction.start, (restriction.start // 10 + 1) * 10)


def read(more: int | None = None) -> beam.ParDo:
    """Numbers, each at the second that it names, some at a time."""

    class Read(beam.DoFn):
        @beam.DoFn.unbounded_per_element()
        def process(
            self,
            element: int,
            tracker: Any = beam.DoFn.RestrictionParam(Ranges(more)),
            estimator: Any = beam.DoFn.WatermarkEstimatorParam(
                ManualWatermarkEstimator.default_provider()
            ),
        ) -> Iterator[Any]:
            number = tracker.current_restriction().start
            for _ in range(7):
                if not tracker.try_claim(number):
                    return
                Metrics.counter("drain", "read").inc()
                yield TimestampedValue(number, number)
                number += 1
                estimator.set_watermark(Timestamp(number))
            tracker.defer_remainder(Duration(micros=10_000))

    return beam.ParDo(Read())


def counter(result: SparkPipelineResult, name: str) -> int:
    found = result.metrics().query(MetricsFilter().with_name(name))["counters"]
    return sum(one.committed or 0 for one in found)


def counted(numbers: beam.PCollection, windows: Any) -> beam.PCollection:
    """Counts what comes out of windows, in a counter."""

    def count(total: int) -> None:
        Metrics.counter("drain", "written").inc(total)
        Metrics.counter("drain", "panes").inc()

    return (
        numbers
        | beam.WindowInto(windows)
        | beam.CombineGlobally(beam.combiners.CountCombineFn()).without_defaults()
        | "Count what comes out" >> beam.Map(count)
    )


def pipeline(runner: SparkRunner, checkpoint: Path | str | None = None) -> beam.Pipeline:
    flags = ["--streaming"]
    if checkpoint is not None:
        flags.append(f"--checkpoint_location={checkpoint}")
    return beam.Pipeline(runner=runner, options=PipelineOptions(flags))


@pytest.mark.part(2)
@pytest.mark.parametrize("where", ["in process", "on Spark"])
def test_a_drain_lets_all_that_was_read_come_out(
    where: str, request: pytest.FixtureRequest
) -> None:
    on_spark = where == "on Spark"
    runner = SparkRunner(request.getfixturevalue("spark")) if on_spark else StreamingRunner()
    p = pipeline(runner)
    numbers = p | beam.Create([ENDLESS]) | read()
    counted(numbers, FixedWindows(1000))
    result: Any = p.run()
    until(lambda: counter(result, "read") > 20)
    assert result.drain() == PipelineState.DRAINING
    assert result.wait_until_finish() == PipelineState.DRAINED
    assert counter(result, "written") == counter(result, "read") > 20


def test_a_drain_truncates_as_the_restriction_provider_says() -> None:
    p = pipeline(StreamingRunner())
    counted(p | beam.Create([ENDLESS]) | read(more=10), FixedWindows(1_000_000))
    result: Any = p.run()
    until(lambda: counter(result, "read") > 0)
    result.drain()
    result.wait_until_finish()
    assert counter(result, "written") == counter(result, "read")
    assert counter(result, "read") % 10 == 0


def test_a_drain_reads_bounded_restrictions_to_their_end() -> None:
    p = pipeline(StreamingRunner())
    counted(p | beam.Create([ENDLESS, 500]) | read(), FixedWindows(1_000_000))
    result: Any = p.run()
    until(lambda: counter(result, "read") > 0)
    result.drain()
    result.wait_until_finish()
    assert counter(result, "written") == counter(result, "read") >= 500


def test_a_drain_fires_timers() -> None:
    class AtTheEnd(beam.DoFn):
        SUM = CombiningValueStateSpec("sum", combine_fn=sum)
        END = TimerSpec("end", TimeDomain.WATERMARK)
        LATER = TimerSpec("later", TimeDomain.REAL_TIME)

        def process(
            self,
            element: tuple[int, int],
            total: Any = beam.DoFn.StateParam(SUM),
            end: Any = beam.DoFn.TimerParam(END),
            later: Any = beam.DoFn.TimerParam(LATER),
        ) -> None:
            total.add(1)
            end.set(MAX_TIMESTAMP)
            later.set(Timestamp.now() + 3600)

        @on_timer(END)
        def ended(self, total: Any = beam.DoFn.StateParam(SUM)) -> None:
            Metrics.counter("drain", "written").inc(total.read())

        @on_timer(LATER)
        def is_later(self) -> None:
            Metrics.counter("drain", "later").inc()

    p = pipeline(StreamingRunner())
    _ = (
        p
        | beam.Create([ENDLESS])
        | read()
        | beam.WithKeys(lambda n: n % 3)
        | beam.ParDo(AtTheEnd())
    )
    result: Any = p.run()
    until(lambda: counter(result, "read") > 20)
    result.drain()
    result.wait_until_finish()
    assert counter(result, "written") == counter(result, "read")
    assert counter(result, "later") == 3


def test_a_restart_goes_on_draining(tmp_path: Path) -> None:
    drained = CliRunner().invoke(main, ["drain", str(tmp_path)])
    assert drained.exit_code == 2
    assert drained.output.endswith(
        f"Error: There is no checkpoint of a sparkbeam pipeline at {tmp_path}.\n"
    )

    def crash(point: Point) -> None:
        if point == (2, "sink"):
            raise Crash

    spark = Spark(crash, repeatable=False)
    p = pipeline(StreamingRunner(spark), tmp_path)
    counted(p | beam.Create([ENDLESS]) | read(), FixedWindows(1000))
    with pytest.raises(PipelineFailed):
        p.run().wait_until_finish()
    drained = CliRunner().invoke(main, ["drain", str(tmp_path)])
    assert (drained.exit_code, drained.output) == (
        0,
        "The pipeline ends its sources, now if it is running, else at its next start.\n",
    )
    spark.crash = lambda point: None
    result: Any = p.run()
    result.wait_until_finish()
    assert counter(result, "written") == counter(result, "read") > 0
    # All windows have ended, so a third run has nothing to do, and must not look as if it had.
    with pytest.raises(ConfigurationError, match=f"{tmp_path} is drained: .*Start with another"):
        p.run().wait_until_finish()
    assert health(tmp_path) == ("drained", 0)
    drained = CliRunner().invoke(main, ["drain", str(tmp_path)])
    assert (drained.exit_code, drained.output) == (
        0,
        "The pipeline has already ended: there is nothing to drain.\n",
    )


def health(checkpoint: Path) -> tuple[str, int]:
    """What ``sparkbeam status`` says, and its exit code."""
    said = CliRunner().invoke(main, ["status", "--json", str(checkpoint)])
    return json.loads(said.output)["health"], said.exit_code


def test_a_pipeline_that_was_to_drain_before_it_ran_again_does_so_at_once(tmp_path: Path) -> None:
    def crash(point: Point) -> None:
        if point == (0, "committed"):
            raise Crash

    spark = Spark(crash, repeatable=False)
    p = pipeline(StreamingRunner(spark), tmp_path)
    counted(p | beam.Create([ENDLESS]) | read(), FixedWindows(1000))
    with pytest.raises(PipelineFailed):
        p.run().wait_until_finish()
    CliRunner().invoke(main, ["drain", str(tmp_path)])
    assert health(tmp_path) == ("failed", 1)
    spark.crash = lambda point: None
    p.run().wait_until_finish()
    assert health(tmp_path) == ("drained", 0)


def test_a_drain_that_crashed_before_its_end_goes_on_and_ends(tmp_path: Path) -> None:
    crashes = Crashes()
    spark = Spark(crashes, repeatable=False)
    p = pipeline(StreamingRunner(spark), tmp_path)
    counted(p | beam.Create([ENDLESS]) | read(), FixedWindows(1000))
    CliRunner().invoke(main, ["drain", str(tmp_path)])
    FeedbackFiles(LocalFiles(str(tmp_path))).ask_to_drain()

    def is_drained() -> bool:
        try:
            p.run().wait_until_finish()
        except ConfigurationError:
            return True
        return False

    # The crash before Spark's last commit left nothing to do.
    while not crashes.until_it_ends(is_drained):
        pass
    assert health(tmp_path) == ("drained", 0)


def test_a_stream_that_ended_by_itself_ends_at_once_when_it_is_started_again(
    tmp_path: Path,
) -> None:
    p = pipeline(StreamingRunner(Spark()), tmp_path)
    counted(p | beam.Create([3]), FixedWindows(10))
    for _ in range(2):
        assert p.run().wait_until_finish() == PipelineState.DONE
        assert health(tmp_path) == ("finished", 0)
        # There is nothing left to drain, so nothing is noted that would stop the next start.
        CliRunner().invoke(main, ["drain", str(tmp_path)])


def test_a_cancelled_pipeline_goes_on_whatever_was_drained_beside_it(tmp_path: Path) -> None:
    p = pipeline(StreamingRunner(Spark(repeatable=False)), tmp_path)
    counted(p | beam.Create([ENDLESS]) | read(), FixedWindows(1000))
    for _ in range(2):
        result: Any = p.run()
        until(partial(has_read, result))
        result.cancel()
        assert result.wait_until_finish() == PipelineState.CANCELLED
        assert health(tmp_path)[0] == "stopped"


def has_read(result: SparkPipelineResult) -> bool:
    return counter(result, "read") > 20


@pytest.mark.parametrize("last", [7, 141, 142, 160])
def test_a_drained_checkpoint_is_known_whatever_spark_noted_after_the_end(
    last: int, tmp_path: Path
) -> None:
    p = pipeline(StreamingRunner(Spark()), tmp_path)
    counted(p | beam.Create([3]), FixedWindows(10))
    p.run().wait_until_finish()
    FeedbackFiles(LocalFiles(str(tmp_path))).ask_to_drain()
    # Spark's sources go on until the query is stopped, without ticks.
    for log, end in (("offsets", last + 1), ("commits", last)):
        (tmp_path / log).mkdir()
        (tmp_path / log / str(end)).touch()
    assert health(tmp_path) == ("drained", 0)
    with pytest.raises(ConfigurationError, match="is drained"):
        p.run().wait_until_finish()


def test_a_checkpoint_is_in_the_folder_that_its_relative_path_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    p = pipeline(StreamingRunner(), Path("mine"))
    counted(p | beam.Create([3]), FixedWindows(10))
    p.run().wait_until_finish()
    assert (tmp_path / "mine" / "sparkbeam" / "pipeline.json").exists()
    assert CliRunner().invoke(main, ["drain", "mine"]).exit_code == 0


@pytest.mark.parametrize("location", ["foo://bucket/mine", "a file"])
def test_a_checkpoint_location_that_cannot_be_read_is_named(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a file").touch()
    drained = CliRunner().invoke(main, ["drain", location])
    assert drained.exit_code == 2
    assert "Error: The checkpoint location" in drained.output
    assert f"{location} cannot be read" in drained.output
    p = pipeline(StreamingRunner(), location)
    _ = p | beam.Create([1])
    with pytest.raises(ConfigurationError, match=f"{location} cannot be read"):
        p.run().wait_until_finish()


def test_a_batch_pipeline_is_not_changed_by_a_drain() -> None:
    result = SparkPipelineResult(cancel_work=lambda: None)
    assert result.drain() == PipelineState.RUNNING
    result._finish(None)
    assert result.drain() == PipelineState.DONE

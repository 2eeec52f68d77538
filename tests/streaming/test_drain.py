"""How a pipeline without an end is brought to one; in process, and once on Spark."""

import json
import sys
from collections.abc import Iterator
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
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import CombiningValueStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Duration, Timestamp
from command import answer, command
from in_process import Crashes, Spark, StreamingRunner, streaming_pipeline
from positions import Positions
from waiting import until

from sparkbeam import SparkRunner
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


class Ranges(Positions):
    """From 0 to the element; an endless one can be truncated to ten more, if it says so."""

    def __init__(self, more: int | None = None) -> None:
        super().__init__()
        self._more = more

    def create_tracker(self, restriction: OffsetRange) -> Endless:
        return Endless(restriction)

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


def drained(p: beam.Pipeline, least: int) -> SparkPipelineResult:
    """Run a pipeline, and drain it when it has read more than so many numbers."""
    result: Any = p.run()
    until(lambda: counter(result, "read") > least)
    assert result.drain() == PipelineState.DRAINING
    assert result.wait_until_finish() == PipelineState.DRAINED
    assert counter(result, "written") == counter(result, "read") > least
    return result


@pytest.mark.part(2)
@pytest.mark.parametrize("where", ["in process", "on Spark"])
def test_a_drain_lets_all_that_was_read_come_out(
    where: str, request: pytest.FixtureRequest
) -> None:
    on_spark = where == "on Spark"
    runner = SparkRunner(request.getfixturevalue("spark")) if on_spark else StreamingRunner()
    p = beam.Pipeline(runner, options=PipelineOptions(["--streaming"]))
    counted(p | beam.Create([ENDLESS]) | read(), FixedWindows(1000))
    drained(p, 20)


def test_a_drain_truncates_as_the_restriction_provider_says() -> None:
    p = streaming_pipeline()
    counted(p | beam.Create([ENDLESS]) | read(more=10), FixedWindows(1_000_000))
    assert counter(drained(p, 0), "read") % 10 == 0


def test_a_drain_reads_bounded_restrictions_to_their_end() -> None:
    p = streaming_pipeline()
    counted(p | beam.Create([ENDLESS, 500]) | read(), FixedWindows(1_000_000))
    assert counter(drained(p, 0), "read") >= 500


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

    p = streaming_pipeline()
    numbers = p | beam.Create([ENDLESS]) | read()
    _ = numbers | beam.WithKeys(lambda n: n % 3) | beam.ParDo(AtTheEnd())
    assert counter(drained(p, 20), "later") == 3


def test_a_restart_goes_on_draining(tmp_path: Path) -> None:
    told = answer(command("drain", tmp_path))
    assert told[0] == "exit code 2"
    assert told[-1].endswith(
        f"Error: There is no checkpoint of a sparkbeam pipeline at {tmp_path}."
    )
    spark = Spark(Crashes((2, "sink")), repeatable=False)
    p = streaming_pipeline(spark, tmp_path)
    counted(p | beam.Create([ENDLESS]) | read(), FixedWindows(1000))
    with pytest.raises(PipelineFailed):
        p.run().wait_until_finish()
    assert answer(command("drain", tmp_path)) == [
        "exit code 0",
        "The pipeline ends its sources, now if it is running, else at its next start.",
    ]
    result: Any = p.run()
    result.wait_until_finish()
    assert counter(result, "written") == counter(result, "read") > 0
    # All windows have ended, so a third run has nothing to do, and must not look as if it had.
    with pytest.raises(ConfigurationError, match=f"{tmp_path} is drained: .*Start with another"):
        p.run().wait_until_finish()
    assert health(tmp_path) == ("drained", 0)
    assert answer(command("drain", tmp_path)) == [
        "exit code 0",
        "The pipeline has already ended: there is nothing to drain.",
    ]


def health(checkpoint: Path) -> tuple[str, int]:
    """What ``sparkbeam status`` says, and its exit code."""
    said = command("status", "--json", checkpoint)
    return json.loads(said.output)["health"], said.exit_code


def test_a_pipeline_that_was_to_drain_before_it_ran_again_does_so_at_once(tmp_path: Path) -> None:
    p = streaming_pipeline(Spark(Crashes((0, "committed")), repeatable=False), tmp_path)
    counted(p | beam.Create([ENDLESS]) | read(), FixedWindows(1000))
    with pytest.raises(PipelineFailed):
        p.run().wait_until_finish()
    command("drain", tmp_path)
    assert health(tmp_path) == ("failed", 1)
    p.run().wait_until_finish()
    assert health(tmp_path) == ("drained", 0)


def test_a_drain_that_crashed_before_its_end_goes_on_and_ends(tmp_path: Path) -> None:
    crashes = Crashes()
    p = streaming_pipeline(Spark(crashes, repeatable=False), tmp_path)
    counted(p | beam.Create([ENDLESS]) | read(), FixedWindows(1000))
    command("drain", tmp_path)
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
    p = streaming_pipeline(None, tmp_path)
    counted(p | beam.Create([3]), FixedWindows(10))
    for _ in range(2):
        assert p.run().wait_until_finish() == PipelineState.DONE
        assert health(tmp_path) == ("finished", 0)
        # There is nothing left to drain, so nothing is noted that would stop the next start.
        command("drain", tmp_path)


def test_a_cancelled_pipeline_goes_on_whatever_was_drained_beside_it(tmp_path: Path) -> None:
    p = streaming_pipeline(Spark(repeatable=False), tmp_path)
    counted(p | beam.Create([ENDLESS]) | read(), FixedWindows(1000))
    for _ in range(2):
        result: Any = p.run()
        until(lambda result=result: counter(result, "read") > 20)  # type: ignore[misc]
        result.cancel()
        assert result.wait_until_finish() == PipelineState.CANCELLED
        assert health(tmp_path)[0] == "stopped"


@pytest.mark.parametrize("last", [7, 141, 142, 160])
def test_a_drained_checkpoint_is_known_whatever_spark_noted_after_the_end(
    last: int, tmp_path: Path
) -> None:
    p = streaming_pipeline(None, tmp_path)
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
    p = streaming_pipeline(None, "mine")
    counted(p | beam.Create([3]), FixedWindows(10))
    p.run().wait_until_finish()
    assert (tmp_path / "mine" / "sparkbeam" / "pipeline.json").exists()
    assert command("drain", "mine").exit_code == 0


@pytest.mark.parametrize("location", ["foo://bucket/mine", "a file"])
def test_a_checkpoint_location_that_cannot_be_read_is_named(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a file").touch()
    told = command("drain", location)
    assert told.exit_code == 2
    assert "Error: The checkpoint location" in told.output
    assert f"{location} cannot be read" in told.output
    p = streaming_pipeline(None, location)
    _ = p | beam.Create([1])
    with pytest.raises(ConfigurationError, match=f"{location} cannot be read"):
        p.run().wait_until_finish()


def test_a_batch_pipeline_is_not_changed_by_a_drain() -> None:
    result = SparkPipelineResult(cancel_work=lambda: None)
    assert result.drain() == PipelineState.RUNNING
    result._finish(None)
    assert result.drain() == PipelineState.DONE

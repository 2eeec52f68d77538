"""What streaming makes of time, windows, state and timers; in process, and partly on Spark."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterWatermark,
    DefaultTrigger,
    Repeatedly,
)
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    TimestampCombiner,
    TimestampedValue,
)
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp
from in_process import Crashes, Measured, Spark, StreamingRunner, rounds, streaming_pipeline
from remembering import Remembering

from sparkbeam import SparkRunner

# Some ask for the session as they run.
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("by_value")]


@pytest.fixture(params=["in process", "on Spark"])
def anywhere(request: pytest.FixtureRequest) -> SparkRunner:
    if request.param == "in process":
        return StreamingRunner()
    return SparkRunner(request.getfixturevalue("spark"))


def pipeline(runner: SparkRunner | None = None) -> beam.Pipeline:
    return beam.Pipeline(runner or StreamingRunner(), options=PipelineOptions(["--streaming"]))


def at(*stamps: int) -> list[TimestampedValue]:
    """Numbers, each at the second that it names."""
    return [TimestampedValue(stamp, stamp) for stamp in stamps]


def earliest(size: int) -> beam.WindowInto:
    return beam.WindowInto(
        FixedWindows(size), timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST
    )


def test_aggregations_in_a_chain_agree_in_each_window(anywhere: SparkRunner) -> None:
    events = TestStream(coder=VarIntCoder())
    for second in range(12):
        events = events.add_elements(at(second)).advance_watermark_to(second)
    with pipeline(anywhere) as p:
        numbers = p | events.advance_watermark_to_infinity() | earliest(4)
        halves = (
            numbers
            | beam.Map(lambda n: (n % 4, n))
            | "by four" >> beam.CombinePerKey(sum)
            | beam.MapTuple(lambda k, n: (k % 2, n))
            | "by two" >> beam.CombinePerKey(sum)
        )
        whole = (
            halves
            | beam.Values()
            | "all" >> beam.CombineGlobally(sum).without_defaults()
            | beam.Map(lambda total: (None, total))
            | beam.GroupByKey()
        )
        assert_that(halves, equal_to([(0, 2), (1, 4), (0, 10), (1, 12), (0, 18), (1, 20)]))
        assert_that(whole, equal_to([(None, [6]), (None, [22]), (None, [38])]), label="whole")


def test_a_slow_branch_does_not_hold_another_back() -> None:
    """An element that waits for a side input holds its own branch, not the other."""
    events = (
        TestStream()
        .add_elements(at(1), tag="numbers")
        .advance_watermark_to(20, tag="numbers")
        .add_elements(at(2), tag="numbers")
        .add_elements([TimestampedValue("s", 3)], tag="side")
        .advance_watermark_to_infinity(tag="numbers")
        .advance_watermark_to_infinity(tag="side")
    )
    with pipeline() as p:
        found = p | events
        side = beam.pvalue.AsList(found["side"] | "side" >> beam.WindowInto(FixedWindows(10)))
        numbers = found["numbers"] | beam.WindowInto(FixedWindows(10))
        waiting = numbers | beam.Map(lambda n, seen: (n, seen), seen=side)
        grouped = {
            name: branch | f"key {name}" >> beam.WithKeys(0) | f"group {name}" >> beam.GroupByKey()
            for name, branch in (("quick", numbers), ("slow", waiting))
        }
        counts = grouped["slow"] | beam.MapTuple(lambda _, found: len(found))
        # The second number is late for the quick grouping, at 20; the slow one is still at 1.
        assert_that(grouped["quick"], equal_to([(0, [1])]), label="quick")
        assert_that(counts, equal_to([2]), label="slow")


def state_after_expiry(keys: int, folder: Path) -> list[int]:
    """How many bytes the state has at the end of each micro-batch.

    The first ends with the windows open, the second when they have expired, and the
    pipeline goes on.
    """
    spark = Measured(lambda checkpoint: checkpoint.size)
    events = TestStream(coder=StrUtf8Coder())
    for number in range(0, keys, 100):
        some = [f"element {n}" for n in range(number, min(number + 100, keys))]
        events = events.add_elements([TimestampedValue(each, 5) for each in some])
    events = events.advance_watermark_to(5)
    events = events.advance_watermark_to(30)
    for _ in range(10):
        events = events.advance_processing_time(1)
    with streaming_pipeline(spark, folder) as p:
        keyed = (
            p
            | events.advance_watermark_to_infinity()
            | beam.WindowInto(FixedWindows(10), allowed_lateness=10)
            | beam.WithKeys(lambda element: element)
        )
        keyed | beam.GroupByKey()
        keyed | beam.ParDo(Remembering())
    return spark.found


def test_nothing_is_left_of_expired_windows(tmp_path: Path) -> None:
    with rounds(2):
        few = state_after_expiry(1, tmp_path / "few")
    with rounds(11):
        many = state_after_expiry(1000, tmp_path / "many")
    assert max(many) > 50 * 1000
    # What is left are the directories of the pages, which are as small as with one key.
    assert many[-2] < few[-2] + 100


def late_elements(p: beam.Pipeline) -> int:
    """How many elements the steps of a pipeline have dropped."""
    wanted = MetricsFilter().with_namespace("sparkbeam").with_name("dropped_due_to_lateness")
    return sum(counter.committed for counter in p.result.metrics().query(wanted)["counters"])


@pytest.mark.parametrize("lateness", [0, 5])
@pytest.mark.parametrize(
    ("windows", "trigger"),
    [
        (FixedWindows(10), DefaultTrigger()),
        (FixedWindows(10), AfterWatermark(late=AfterCount(1))),
        (Sessions(9), DefaultTrigger()),
    ],
)
def test_the_end_of_a_window_and_the_lateness_is_too_late(
    windows: Any, trigger: Any, lateness: int
) -> None:
    events = (
        TestStream(coder=VarIntCoder())
        .advance_watermark_to(9 + lateness)
        .add_elements(at(1))
        .advance_watermark_to(10 + lateness)
        .add_elements(at(1, 11 + lateness))
        .advance_watermark_to_infinity()
    )
    with pipeline() as p:
        windowed = beam.WindowInto(
            windows,
            trigger=trigger,
            accumulation_mode=AccumulationMode.DISCARDING,
            allowed_lateness=lateness,
        )
        typed = beam.Map(lambda n: ("k", n)).with_output_types(tuple[str, int])
        keyed = p | events | typed | windowed
        grouped = keyed | beam.GroupByKey()
        assert_that(grouped, equal_to([("k", [1]), ("k", [11 + lateness])]), label="grouped")
        summed = keyed | beam.CombinePerKey(sum)
        assert_that(summed, equal_to([("k", 1), ("k", 11 + lateness)]), label="summed")
        if isinstance(windows, FixedWindows):  # State has no merging windows.
            numbered = keyed | beam.ParDo(Numbering())
            assert_that(numbered, equal_to(["1 ", f"{11 + lateness} "]), label="numbered")
    assert late_elements(p) == 2 + isinstance(windows, FixedWindows)


class SortedByTime(beam.ParDo):
    """A ParDo whose elements come in the order of time; the SDK has no word for that."""

    def to_runner_api_parameter(  # type: ignore[override]
        self, context: Any, **extra: Any
    ) -> Any:
        urn, payload = super().to_runner_api_parameter(context, **extra)
        payload.requires_time_sorted_input = True
        return urn, payload


class Numbering(beam.DoFn):
    """Gives each element with those of its key before it."""

    BEFORE = ReadModifyWriteStateSpec("before", StrUtf8Coder())

    def process(
        self, element: tuple[str, int], before: Any = beam.DoFn.StateParam(BEFORE)
    ) -> Iterator[str]:
        found = f"{before.read() or ''}{element[1]} "
        before.write(found)
        yield found


def test_requires_time_sorted_input_waits_for_the_watermark() -> None:
    events = (
        TestStream(coder=VarIntCoder())
        .add_elements(at(7, 3, 5))
        .advance_watermark_to(4)
        .add_elements(at(6, 4))
        .advance_watermark_to_infinity()
    )
    with pipeline() as p:
        keyed = p | events | beam.WithKeys("k")
        assert_that(
            keyed | SortedByTime(Numbering()),
            equal_to(["3 ", "3 4 ", "3 4 5 ", "3 4 5 6 ", "3 4 5 6 7 "]),
        )


class Counting(beam.DoFn):
    """Counts what it hands on."""

    def process(self, element: int) -> Iterator[int]:
        Metrics.counter("model", "numbers").inc()
        yield element


class Clock(beam.DoFn):
    """Gives what it has when the clock is ten seconds on."""

    KEPT = BagStateSpec("kept", VarIntCoder())
    TIMER = TimerSpec("timer", TimeDomain.REAL_TIME)

    def process(
        self,
        element: tuple[str, int],
        kept: Any = beam.DoFn.StateParam(KEPT),
        timer: Any = beam.DoFn.TimerParam(TIMER),
    ) -> None:
        kept.add(element[1])
        timer.set(Timestamp(element[1] + 10))

    @on_timer(TIMER)
    def fire(self, kept: Any = beam.DoFn.StateParam(KEPT)) -> Iterator[list[int]]:
        yield sorted(kept.read())
        kept.clear()


def test_timers_in_processing_time_follow_the_clock(anywhere: SparkRunner) -> None:
    events = (
        TestStream(coder=VarIntCoder())
        .advance_processing_time(1)
        .add_elements([1])
        .add_elements([2])
        .advance_processing_time(20)
        .add_elements([15])
        .advance_processing_time(20)
        .advance_watermark_to_infinity()
    )
    with pipeline(anywhere) as p:
        fired = p | events | beam.WithKeys("k") | beam.ParDo(Clock())
        assert_that(fired, equal_to([[1, 2], [15]]))


class Tagged(beam.DoFn):
    """Sets a timer of the element's own name, or clears it."""

    TIMER = TimerSpec("timer", TimeDomain.WATERMARK)

    def process(self, element: tuple[str, str], timer: Any = beam.DoFn.TimerParam(TIMER)) -> None:
        name, second = element[1].split("@")
        if second:
            timer.set(int(second), dynamic_timer_tag=name)
        else:
            timer.clear(dynamic_timer_tag=name)

    @on_timer(TIMER)
    def fire(
        self, tag: Any = beam.DoFn.DynamicTimerTagParam, time: Any = beam.DoFn.TimestampParam
    ) -> Iterator[tuple[str, int]]:
        yield tag, int(time)


def build(p: beam.Pipeline) -> None:
    """A pipeline with panes, state, timers and a side input, of several micro-batches."""
    events = TestStream(coder=VarIntCoder())
    for second in range(1, 7):
        events = events.add_elements(at(second)).advance_watermark_to(second)
        events = events.advance_processing_time(5)
    numbers = p | events.advance_watermark_to_infinity() | beam.ParDo(Counting())
    panes = (
        numbers
        | "panes"
        >> beam.WindowInto(
            GlobalWindows(),
            trigger=Repeatedly(AfterCount(2)),
            accumulation_mode=AccumulationMode.ACCUMULATING,
        )
        | "one key" >> beam.WithKeys("k")
        | beam.GroupByKey()
        | beam.MapTuple(lambda _, found: sorted(found))
    )
    sums = (
        numbers
        | earliest(3)
        | "sums" >> beam.CombineGlobally(sum).without_defaults()
        | "again" >> beam.CombineGlobally(sum).without_defaults()
    )
    clock = numbers | "keys" >> beam.WithKeys("k") | beam.ParDo(Clock())
    total = (
        clock
        | beam.FlatMap(lambda found: found)
        | "long" >> beam.WindowInto(FixedWindows(100))
        | "total" >> beam.CombineGlobally(sum).without_defaults()
    )
    late = (
        p
        | "main" >> beam.Create([TimestampedValue("main", 1)])
        | "as long" >> beam.WindowInto(FixedWindows(100))
        | "join" >> beam.Map(lambda m, s: (m, s), beam.pvalue.AsSingleton(total))
    )
    assert_that(panes, equal_to([[1, 2], [1, 2, 3, 4], [1, 2, 3, 4, 5, 6]]), label="panes")
    assert_that(sums, equal_to([3, 12, 6]), label="sums")
    assert_that(late, equal_to([("main", 21)]), label="side")


@rounds(7)
def test_crashes_everywhere_change_nothing(tmp_path: Path) -> None:
    spark = Spark(crashes := Crashes())

    def run() -> Any:
        with streaming_pipeline(spark, tmp_path) as p:
            build(p)
        return p.result

    result = crashes.until_it_ends(run)
    assert {batch for batch, _ in crashes.points} >= {0, 1, 2}
    (counter,) = result.metrics().query()["counters"]
    assert counter.committed == 6


def test_the_end_of_time_is_not_a_window_of_its_own() -> None:
    """Timers far away fire, once, when the sources have ended."""
    events = TestStream(coder=StrUtf8Coder()).add_elements([f"far@{int(MAX_TIMESTAMP) - 10}"])
    with pipeline() as p:
        fired = p | events.advance_watermark_to_infinity() | beam.WithKeys("k")
        assert_that(
            fired | beam.ParDo(Tagged()) | beam.Map(lambda found: found[0]), equal_to(["far"])
        )

"""Every trigger does what Beam's model says, with the clock before, at and after the windows.

Trigger expressions, windows and events are generated; :mod:`trigger_model` says what comes of them.
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apache_beam as beam
import pytest
import trigger_model as model
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import MetricsFilter
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.combiners import (
    Largest,
    MeanCombineFn,
    SingleInputTupleCombineFn,
    ToListCombineFn,
)
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    DataLossReason,
    DefaultTrigger,
    Repeatedly,
)
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    TimestampedValue,
)
from apache_beam.utils.windowed_value import PaneInfoTiming
from hypothesis import given, settings
from hypothesis import strategies as st
from in_process import Crashes, Spark, rounds, streaming_pipeline
from random_triggers import STAMPS, TRIGGERS, bounded
from trigger_model import EARLY, LATE, ON_TIME, Clock, Elements, Event, Pane, Watermark, expected
from whole import is_whole

EXAMPLES = 80 if is_whole() else 8
BRANCHES = 4
"""How many triggers see the same events."""

DISCARDING, ACCUMULATING = AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING
TIMINGS = {
    PaneInfoTiming.EARLY: EARLY,
    PaneInfoTiming.ON_TIME: ON_TIME,
    PaneInfoTiming.LATE: LATE,
}

found: dict[str, list[Pane]] = {}
"""What has come out of the pipelines that run in this process, by the name of their step."""

stamped: dict[str, list[tuple[Pane, int]]] = {}
"""The same with the timestamps of the panes, in microseconds."""


def note(
    pair: Any,
    name: str,
    window: Any = beam.DoFn.WindowParam,
    info: Any = beam.DoFn.PaneInfoParam,
    stamp: Any = beam.DoFn.TimestampParam,
) -> None:
    """Notes a pane."""
    span = (int(window.start), int(window.end))
    if isinstance(window, GlobalWindow):
        span = (-model.FOREVER, model.GLOBAL_END)
    pane = Pane(
        span,
        tuple(sorted(pair[1])),
        TIMINGS[info.timing],
        info.index,
        info.nonspeculative_index,
        info.is_first,
        info.is_last,
    )
    found.setdefault(name, []).append(pane)
    stamped.setdefault(name, []).append((pane, stamp.micros))


def stream(events: list[Event]) -> TestStream:
    test_stream = TestStream(coder=VarIntCoder())
    for each in events:
        match each:
            case Elements(pairs):
                stamped = [TimestampedValue(value, stamp) for value, stamp in pairs]
                test_stream = test_stream.add_elements(stamped)
            case Watermark(to):
                test_stream = test_stream.advance_watermark_to(to)
            case Clock(by):
                test_stream = test_stream.advance_processing_time(by)
    return test_stream.advance_watermark_to_infinity()


class Ran:
    """A run of events, grouped and combined by several windowings.

    Args:
        windowings: of the elements.
        events: what happens.
        crashes: where it does so; None for nowhere.
        most: how many events make a micro-batch.

    Attributes:
        dropped: how many elements were dropped, by the step and the counter.
    """

    def __init__(
        self,
        windowings: Sequence[Windowing],
        events: list[Event],
        crashes: Crashes | None = None,
        most: int = 200,
    ) -> None:
        self._windowings, self._events = windowings, events
        found.clear()
        stamped.clear()
        crashes = crashes or Crashes((-1, ""))
        spark = Spark(crashes)
        with TemporaryDirectory() as folder, rounds(most):
            result = crashes.until_it_ends(lambda: self._run(spark, Path(folder)))
        # What ran in a micro-batch that was not committed has run again.
        runs_again = any(when == "sink" for _, when in crashes.points)
        self._found = {
            name: sorted(set(panes) if runs_again else panes) for name, panes in found.items()
        }
        self.dropped: Counter[tuple[str, str]] = Counter()
        counters = result.metrics().query(MetricsFilter().with_namespace("sparkbeam"))["counters"]
        for counter in counters:
            (step,) = re.findall(r"(?:groups|lists) \d+", counter.key.step)
            self.dropped[step, counter.key.metric.name] += counter.committed

    def panes(self, name: str) -> list[Pane]:
        """Those of a step, sorted."""
        return self._found.get(name, [])

    def _run(self, spark: Spark, folder: Path) -> Any:
        p = streaming_pipeline(spark, folder, "--allow_unsafe_triggers")
        pairs = p | stream(self._events) | beam.WithKeys("key")
        for number, windowing in enumerate(self._windowings):
            windows = pairs | f"windows {number}" >> beam.WindowInto(
                windowing.windowfn,
                trigger=windowing.triggerfn,
                accumulation_mode=windowing.accumulation_mode,
                allowed_lateness=windowing.allowed_lateness,
                timestamp_combiner=windowing.timestamp_combiner,
            )
            for name, grouping in (
                (f"groups {number}", beam.GroupByKey()),
                (f"lists {number}", beam.CombinePerKey(ToListCombineFn())),
            ):
                windows | name >> grouping | f"note {name}" >> beam.Map(note, name)
        result = p.run()
        result.wait_until_finish()
        return result


def check(windowings: Sequence[Windowing], events: list[Event], *where: Any) -> None:
    """Compares a run with the model, and looks that nothing is lost or doubled."""
    ran = Ran(windowings, events, *where)
    for number, windowing in enumerate(windowings):
        outcome = expected(windowing, events)
        for step in (f"groups {number}", f"lists {number}"):
            assert ran.panes(step) == sorted(outcome.panes), (step, windowing.triggerfn)
            assert ran.dropped[step, "dropped_due_to_lateness"] == outcome.late
            assert ran.dropped[step, "dropped_due_to_closed_window"] == outcome.closed
        if windowing.accumulation_mode == DISCARDING:
            values = sum(len(pane.values) for pane in outcome.panes)
            assert values == arrivals(windowing, events) - outcome.late - outcome.closed
        if windowing.triggerfn.may_lose_data(windowing) == DataLossReason.NO_POTENTIAL_LOSS:
            assert not outcome.closed


def arrivals(windowing: Windowing, events: list[Event]) -> int:
    """How many elements there are, in how many windows each."""
    numbers = sum(len(each.pairs) for each in events if isinstance(each, Elements))
    fn = windowing.windowfn
    windows = fn.size.micros // fn.period.micros if isinstance(fn, SlidingWindows) else 1
    return int(numbers * windows)


WINDOWS = st.sampled_from([FixedWindows(10), SlidingWindows(10, 5), Sessions(6), GlobalWindows()])
MODES = st.sampled_from([DISCARDING, ACCUMULATING])


@st.composite
def windowings(draw: Any, stamps: Any = None) -> Windowing:
    fn, of = draw(WINDOWS), draw(TRIGGERS)
    if isinstance(fn, GlobalWindows) and of == DefaultTrigger():
        fn = FixedWindows(10)  # Beam refuses it.
    lateness = draw(st.sampled_from([0, 7, 100]))
    stamp = None if stamps is None else draw(stamps)
    return Windowing(fn, of, draw(MODES), stamp, allowed_lateness=lateness)


@st.composite
def histories(draw: Any) -> list[Event]:
    """Events whose clock begins before the windows, among them or far behind."""
    events: list[Event] = []
    clock = draw(st.sampled_from([0, 0, 12, 1000]))
    if clock:
        events.append(Clock(clock))
    watermark, number = 0, 0
    for kind in draw(st.lists(st.sampled_from("eeewwc"), min_size=3, max_size=14)):
        if kind == "e":
            stamps = draw(st.lists(st.integers(-9, 12), min_size=1, max_size=4))
            pairs = [(number + n, max(0, watermark + by)) for n, by in enumerate(stamps)]
            number += len(pairs)
            events.append(Elements(tuple(pairs)))
        elif kind == "w":
            watermark += draw(st.sampled_from([1, 2, 5, 10, 12]))
            events.append(Watermark(watermark))
        else:
            events.append(Clock(draw(st.sampled_from([1, 3, 5, 9, 30]))))
    return events


BOUNDED = bounded(EXAMPLES)


@BOUNDED
@given(st.lists(windowings(), min_size=BRANCHES, max_size=BRANCHES), histories())
def test_panes_are_those_of_the_model(some: list[Windowing], events: list[Event]) -> None:
    check(some, events)


@settings(BOUNDED, max_examples=max(1, EXAMPLES // 2))
@given(st.lists(windowings(STAMPS), min_size=BRANCHES, max_size=BRANCHES), histories())
def test_a_combine_has_the_panes_of_a_grouping_of_single_elements_and_their_timestamps(
    some: list[Windowing], events: list[Event]
) -> None:
    ran = Ran(some, events)
    for number, windowing in enumerate(some):
        groups, lists = f"groups {number}", f"lists {number}"
        assert sorted(stamped.get(lists, ())) == sorted(stamped.get(groups, ())), windowing
        for name in ("dropped_due_to_lateness", "dropped_due_to_closed_window"):
            assert ran.dropped[lists, name] == ran.dropped[groups, name]


@settings(BOUNDED, max_examples=max(1, EXAMPLES // 3))
@given(
    st.lists(windowings(), min_size=BRANCHES, max_size=BRANCHES),
    histories(),
    st.integers(1, 3),
    st.integers(0, 5),
    st.sampled_from(["planned", "sink", "committed"]),
)
def test_panes_are_those_of_the_model_after_a_crash(
    some: list[Windowing], events: list[Event], most: int, batch: int, when: str
) -> None:
    check(some, events, Crashes((batch, when)), most)


@pytest.mark.parametrize(
    ("trigger", "mode", "last"),
    [
        (AfterWatermark(early=AfterCount(5)), DISCARDING, ((8, 18), (2,), ON_TIME)),
        (AfterWatermark(late=AfterCount(1)), ACCUMULATING, ((0, 18), (1, 2), ON_TIME)),
    ],
    ids=["beside one whose trigger has finished", "that grows past the watermark"],
)
def test_a_session_is_another_one_or_on_time_again(trigger: Any, mode: Any, last: Any) -> None:
    events: list[Event] = [Elements(((1, 0),)), Watermark(10), Elements(((2, 8),)), Watermark(30)]
    panes = Ran([Windowing(Sessions(10), trigger, mode)], events).panes("groups 0")
    found = [(pane.window, pane.values, pane.timing) for pane in panes]
    assert found == [((0, 10), (1,), ON_TIME), last]


def test_a_pane_that_the_clock_lets_out_behind_its_window_is_in_time_downstream() -> None:
    events: list[Event] = [Watermark(5), Elements(((1, 2),)), Watermark(30), Clock(10)]
    found.clear()
    with streaming_pipeline(None, None, "--allow_unsafe_triggers") as p:
        first = (
            p
            | stream(events)
            | beam.WithKeys("key")
            | "clock"
            >> beam.WindowInto(
                FixedWindows(10),
                trigger=Repeatedly(AfterProcessingTime(5)),
                accumulation_mode=DISCARDING,
                allowed_lateness=100,
                timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST,
            )
            | "first" >> beam.GroupByKey()
        )
        second = (
            first
            | beam.FlatMapTuple(lambda key, values: [(key, value) for value in values])
            | "end" >> beam.WindowInto(FixedWindows(10), allowed_lateness=0)
            | "second" >> beam.GroupByKey()
        )
        second | beam.Map(note, "second")
    assert [(pane.values, pane.timing) for pane in found["second"]] == [((1,), ON_TIME)]


def outputs(events: list[Event], combine: Any, trigger: Any, mode: Any) -> beam.PTransform:
    """The outputs of a combine with their timing, in windows of ten seconds."""
    windows = beam.WindowInto(FixedWindows(10), trigger=trigger, accumulation_mode=mode)
    pairs = stream(events) | beam.WithKeys("key") | windows | beam.CombinePerKey(combine)
    return pairs | "timing" >> beam.Map(
        lambda pair, pane=beam.DoFn.PaneInfoParam: (str(pair[1]), TIMINGS[pane.timing])
    )


@pytest.mark.blocks(reason="Beam's own merge hands on a list without accumulators")
@pytest.mark.parametrize(
    ("combine", "mode", "found", "last"),
    [
        (MeanCombineFn(), DISCARDING, "3.0", "nan"),  # Which cannot merge no accumulators.
        (MeanCombineFn(), ACCUMULATING, "3.0", "3.0"),
        (SingleInputTupleCombineFn(sum, MeanCombineFn()), DISCARDING, "(6, 3.0)", "(0, nan)"),
        (Largest(1), DISCARDING, "[3]", "[]"),
    ],
)
def test_a_pane_of_nothing_is_what_a_combine_makes_of_nothing(
    combine: Any, mode: Any, found: str, last: str
) -> None:
    events: list[Event] = [Elements(((3, 1), (3, 1))), Watermark(2)]
    with streaming_pipeline(None, None, "--allow_unsafe_triggers") as p:
        panes = p | outputs(events, combine, AfterWatermark(early=AfterCount(2)), mode)
        assert_that(panes, equal_to([(found, EARLY), (last, ON_TIME)]))


@pytest.mark.parametrize("least", [300, 301])
def test_elements_that_come_as_one_accumulator_are_counted_one_by_one(least: int) -> None:
    with streaming_pipeline(None, None, "--allow_unsafe_triggers") as p:
        panes = p | outputs(
            [Elements(((1, 1),) * 300)], sum, Repeatedly(AfterCount(least)), DISCARDING
        )
        assert_that(panes, equal_to([("300", EARLY if least == 300 else ON_TIME)]))

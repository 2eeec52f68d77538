"""Whatever the trigger is, a combine in batch has the panes of Beam's trigger driver."""

import math
import time
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import trigger
from apache_beam.transforms.combiners import MeanCombineFn, ToListCombineFn
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterEach,
    AfterWatermark,
    DataLossReason,
    DefaultTrigger,
    Repeatedly,
)
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    TimestampedValue,
    WindowFn,
)
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from hypothesis import given
from hypothesis import strategies as st
from in_process_batch import BatchRunner
from random_triggers import STAMPS, TRIGGERS, bounded
from whole import is_whole

from sparkbeam.wire.rounding import coded
from sparkbeam.worker.grouping.triggers import asks_the_clock

EXAMPLES = 80 if is_whole() else 8
BRANCHES = 4
"""How many triggers see the same elements."""

DISCARDING, ACCUMULATING = AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING

Stamped = tuple[str, int, int]
"""A key, a number and its timestamp in seconds."""


class Visits(Sessions):
    """Sessions that may merge in another way."""


class Own(ToListCombineFn):
    """Its accumulators may change when they are merged and when their outputs are made."""

    def merge_accumulators(self, accumulators: Iterable[list[int]]) -> list[int]:
        first, *others = accumulators
        for other in others:
            first.extend(other)
        return first

    def extract_output(self, accumulator: list[int]) -> list[int]:
        found = sorted(accumulator)
        accumulator.clear()
        return found


WINDOWS = st.sampled_from(
    [FixedWindows(10), SlidingWindows(10, 5), Sessions(6), Visits(6), GlobalWindows()]
)
COMBINES = {"own": Own(), "lists": ToListCombineFn(), "sum": sum, "count": len}

found: dict[str, list[tuple[Any, ...]]] = {}
"""What has come out of the pipelines that run in this process, by the name of their step."""


def note(
    pair: Any,
    name: str,
    window: Any = beam.DoFn.WindowParam,
    info: Any = beam.DoFn.PaneInfoParam,
    stamp: Any = beam.DoFn.TimestampParam,
) -> None:
    """Notes a pane."""
    key, value = pair
    value = sorted(value) if isinstance(value, list) else value
    found.setdefault(name, []).append((key, str(window), str(info), stamp.micros, value))


@st.composite
def windowings(draw: Any) -> Windowing:
    fn, of = draw(WINDOWS), draw(TRIGGERS)
    if of == DefaultTrigger():
        of = Repeatedly(of)
    lateness = draw(st.sampled_from([0, 7]))
    mode = draw(st.sampled_from([DISCARDING, ACCUMULATING]))
    return Windowing(fn, of, mode, draw(STAMPS), allowed_lateness=lateness)


ELEMENTS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 40)), min_size=1, max_size=12
)


def ran(windowings: list[Windowing], elements: list[Stamped]) -> None:
    """Runs all combines and a GroupByKey over each windowing."""
    found.clear()
    flags = PipelineOptions(["--allow_unsafe_triggers", "--spark_parallelism=3"])
    with beam.Pipeline(runner=BatchRunner(), options=flags) as p:
        stamps = [((key, number), stamp) for key, number, stamp in elements]
        pairs = p | beam.Create(stamps) | beam.MapTuple(TimestampedValue)
        for at, windowing in enumerate(windowings):
            windows = pairs | f"windows {at}" >> beam.WindowInto(
                windowing.windowfn,
                trigger=windowing.triggerfn,
                accumulation_mode=windowing.accumulation_mode,
                timestamp_combiner=windowing.timestamp_combiner,
                allowed_lateness=windowing.allowed_lateness,
            )
            for name, combine in COMBINES.items():
                combined = windows | f"{name} {at}" >> beam.CombinePerKey(
                    beam.combiners.CountCombineFn() if combine is len else combine
                )
                combined | f"note {name} {at}" >> beam.Map(note, f"{name} {at}")
            groups = windows | f"groups {at}" >> beam.GroupByKey()
            lists = groups | f"listed {at}" >> beam.MapTuple(lambda key, all: (key, list(all)))
            lists | f"note groups {at}" >> beam.Map(note, f"groups {at}")


def by_the_driver(windowing: Windowing, elements: list[Stamped]) -> list[tuple[Any, ...]]:
    """The panes of Beam's driver, and a last one of each window that it loses in spite of that."""
    panes: list[tuple[Any, ...]] = []
    for key in sorted({key for key, _, _ in elements}):
        of_key = [
            WindowedValue(number, Timestamp(stamp), tuple(_assigned(windowing.windowfn, stamp)))
            for one, number, stamp in elements
            if one == key
        ]
        panes += [
            (key, str(pane.windows[0]), str(pane.pane_info), coded(pane.timestamp).micros, values)
            for pane in _driven(windowing, of_key)
            for values in [sorted(pane.value)]
        ]
    return panes


def _assigned(window_fn: WindowFn, stamp: int) -> Any:
    return window_fn.assign(WindowFn.AssignContext(Timestamp(stamp)))


def _driven(windowing: Windowing, elements: list[WindowedValue]) -> list[WindowedValue]:
    driver = trigger.create_trigger_driver(windowing, is_batch=True, clock=time)
    state = trigger.InMemoryUnmergedState()
    panes = list(driver.process_elements(state, elements, MIN_TIMESTAMP, MIN_TIMESTAMP))
    while state.timers:
        due, _ = state.get_timers(clear=True, watermark=MAX_TIMESTAMP, processing_time=math.inf)
        for window, (name, domain, fire_time, _) in due:
            panes += driver.process_timer(window, name, domain, fire_time, state)
    return panes


BOUNDED = bounded(EXAMPLES)


@BOUNDED
@given(st.lists(windowings(), min_size=BRANCHES, max_size=BRANCHES), ELEMENTS)
def test_panes_of_combines_are_those_of_a_grouping_and_of_beams_driver(
    some: list[Windowing], elements: list[Stamped]
) -> None:
    check(some, elements)


@pytest.mark.parametrize("mode", [DISCARDING, ACCUMULATING])
def test_counts_are_reached_by_elements_of_several_tasks(mode: Any) -> None:
    times = [number * number % 37 for number in range(60)]
    elements = [(key, time, time + ord(key)) for key in "abc" for time in times[ord(key) % 7 :]]
    sliding, sessions = SlidingWindows(10, 5), Sessions(4)
    some = [
        (sliding, Repeatedly(AfterCount(4))),
        (sessions, AfterCount(1000)),
        (sliding, AfterEach(AfterCount(3), AfterCount(5))),
        (sessions, AfterWatermark(early=AfterCount(3), late=AfterCount(2))),
    ]
    check([Windowing(window_fn, of, mode) for window_fn, of in some], elements)


def check(some: list[Windowing], elements: list[Stamped]) -> None:
    """Compares panes of combines, of a grouping and of Beam's driver."""
    ran(some, elements)
    for at, windowing in enumerate(some):
        groups = sorted(found.get(f"groups {at}", []))
        assert sorted(found.get(f"lists {at}", [])) == groups, windowing
        assert sorted(found.get(f"own {at}", [])) == groups, windowing
        for name, come_to in (("sum", sum), ("count", len)):
            expected = sorted((*pane, come_to(values)) for *pane, values in groups)
            assert sorted(found.get(f"{name} {at}", [])) == expected, windowing
        if not asks_the_clock(windowing.triggerfn):
            expected = by_the_driver(windowing, elements)
            windows = {pane[:2] for pane in expected}
            assert sorted(expected) == [pane for pane in groups if pane[:2] in windows]
            rest = [pane for pane in groups if pane[:2] not in windows]
            loses = windowing.triggerfn.may_lose_data(windowing)
            assert not rest or loses == DataLossReason.NO_POTENTIAL_LOSS


def test_a_pane_of_nothing_needs_no_merge_of_nothing() -> None:
    """Beam's mean cannot merge no accumulators."""
    flags = PipelineOptions(["--allow_unsafe_triggers"])
    found.clear()
    with beam.Pipeline(runner=BatchRunner(), options=flags) as p:
        windows = (
            p
            | beam.Create([("a", 1), ("a", 2)])
            | beam.WindowInto(
                FixedWindows(10),
                trigger=AfterWatermark(early=AfterCount(2)),
                accumulation_mode=DISCARDING,
                timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST,
            )
        )
        windows | beam.CombinePerKey(MeanCombineFn()) | beam.Map(note, "mean")
    assert [str(pane[-1]) for pane in found["mean"]] == ["1.5", "nan"]

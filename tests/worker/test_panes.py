"""Panes made of all elements of a window at once, beside Beam's driver element by element."""

import math
import time
from typing import Any

import pytest
from apache_beam.transforms import trigger
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    OrFinally,
    Repeatedly,
)
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    WindowFn,
)
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import PaneInfoTiming, WindowedValue

from sparkbeam.wire.rounding import coded
from sparkbeam.worker.grouping.panes import Panes

TRIGGERS = [
    AfterCount(1),
    AfterCount(7),
    AfterCount(1_000),
    trigger.Always(),
    Repeatedly(AfterCount(3)),
    Repeatedly(AfterProcessingTime(5)),
    Repeatedly(AfterAny(AfterCount(5), AfterProcessingTime(3))),
    AfterAll(AfterCount(20), AfterProcessingTime(1)),
    AfterEach(AfterCount(2), Repeatedly(AfterCount(10))),
    AfterWatermark(early=AfterCount(10)),
    AfterWatermark(early=AfterCount(9), late=AfterAny(AfterCount(9), AfterProcessingTime(1))),
]
WINDOW_FNS = [FixedWindows(10), SlidingWindows(10, 5), Sessions(3), GlobalWindows()]
STAMPS = [
    TimestampCombiner.OUTPUT_AT_EOW,
    TimestampCombiner.OUTPUT_AT_EARLIEST,
    TimestampCombiner.OUTPUT_AT_LATEST,
]


def one_by_one(windowing: Windowing, elements: list[WindowedValue]) -> list[WindowedValue]:
    """The panes of Beam's driver, with timestamps as Beam's coder gives them back."""
    driver = trigger.create_trigger_driver(windowing, is_batch=True, clock=time)
    state = trigger.InMemoryUnmergedState()
    panes = list(driver.process_elements(state, elements, MIN_TIMESTAMP, MIN_TIMESTAMP))
    while state.timers:
        due, _ = state.get_timers(clear=True, watermark=MAX_TIMESTAMP, processing_time=math.inf)
        for window, (name, domain, fire_time, _) in due:
            panes += driver.process_timer(window, name, domain, fire_time, state)
    return [
        WindowedValue(pane.value, coded(pane.timestamp), pane.windows, pane.pane_info)
        for pane in panes
    ]


def described(panes: Any) -> list[Any]:
    return sorted(
        (str(pane.windows), str(pane.pane_info), pane.timestamp.micros, sorted(pane.value))
        for pane in panes
    )


def windowed(window_fn: WindowFn, count: int) -> list[WindowedValue]:
    """Numbers at times of a minute, in no order."""
    elements = []
    for number in range(count):
        time = Timestamp(number * 7919 % 60)
        windows = tuple(window_fn.assign(WindowFn.AssignContext(time, element=number)))
        elements.append(WindowedValue(number, time, windows))
    return elements


@pytest.mark.part(5)
@pytest.mark.parametrize("count", [1, 5, 200])
@pytest.mark.parametrize("trigger_fn", TRIGGERS, ids=str)
@pytest.mark.parametrize("window_fn", WINDOW_FNS, ids=lambda fn: type(fn).__name__)
@pytest.mark.parametrize(
    "mode", [AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING], ids=["disc", "acc"]
)
def test_panes_are_those_of_beams_driver_and_a_last_one_of_windows_without(
    window_fn: WindowFn, trigger_fn: Any, mode: Any, count: int
) -> None:
    for stamp in STAMPS:
        windowing = Windowing(window_fn, trigger_fn, mode, stamp, allowed_lateness=100)
        elements = windowed(window_fn, count)
        expected = one_by_one(windowing, elements)
        with_panes = {pane.windows for pane in expected}
        found = list(Panes(windowing).of(elements))
        asked_for = [pane for pane in found if pane.windows in with_panes]
        assert described(asked_for) == described(expected)
        rest = [pane for pane in found if pane.windows not in with_panes]
        assert all(pane.pane_info.is_first and pane.pane_info.is_last for pane in rest)
        if trigger_fn.may_lose_data(windowing) == trigger.DataLossReason.NO_POTENTIAL_LOSS:
            assert {number for pane in found for number in pane.value} == set(range(count))
        else:
            assert rest == []


CLOCKED = {
    "early and late": AfterWatermark(early=AfterProcessingTime(1), late=AfterProcessingTime(1)),
    "any, again": Repeatedly(AfterAny(AfterWatermark(), AfterProcessingTime(1))),
    "any": AfterAny(AfterWatermark(), AfterProcessingTime(1)),
    "all": AfterAll(AfterWatermark(), AfterProcessingTime(1)),
    "all, again": Repeatedly(AfterAll(AfterWatermark(), AfterProcessingTime(1))),
    "again": Repeatedly(AfterProcessingTime(1)),
    "each": AfterEach(AfterProcessingTime(1), AfterWatermark()),
    "or finally": OrFinally(Repeatedly(AfterProcessingTime(1)), AfterWatermark()),
}


@pytest.mark.parametrize("start", [0, 10**11], ids=["before the clock", "behind it"])
@pytest.mark.parametrize("trigger_fn", CLOCKED.values(), ids=CLOCKED)
@pytest.mark.parametrize(
    "mode", [AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING], ids=["disc", "acc"]
)
def test_the_clock_neither_loses_elements_nor_repeats_them(
    mode: Any, trigger_fn: Any, start: int
) -> None:
    windowing = Windowing(FixedWindows(10), trigger_fn, mode, allowed_lateness=100)
    assign = windowing.windowfn.assign
    elements = [
        WindowedValue(n, start + n, tuple(assign(WindowFn.AssignContext(start + n))))
        for n in range(25)
    ]
    found = list(Panes(windowing).of(elements))
    numbers = sorted(number for pane in found if pane.pane_info.is_first for number in pane.value)
    assert numbers == list(range(25))
    again = [pane for pane in found if not pane.pane_info.is_first]
    assert all(pane.pane_info.timing == PaneInfoTiming.ON_TIME for pane in again)
    if mode == AccumulationMode.DISCARDING:
        assert not any(pane.value for pane in again)

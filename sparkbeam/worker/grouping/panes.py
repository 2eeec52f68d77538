"""The panes of a key with a trigger other than the default one.

Beam's trigger driver determines the panes element by element, at some 20 µs each. In batch all
elements of a key are there. Therefore the elements of a window go to the driver as one element,
whose value is the list of their values and which counts for all of them.
"""

import math
import time
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import chain
from typing import Any

from apache_beam.transforms import trigger
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.upstream.beam import last_pane
from sparkbeam.wire.rounding import coded
from sparkbeam.worker.group_timestamps import combine_stamps
from sparkbeam.worker.grouping.trigger_state import COUNT

_ELEMENTS = trigger.GeneralTriggerDriver.ELEMENTS


class Panes:
    """Panes of a key after both times have reached their end.

    Args:
        windowing: with a trigger that is not the default one.
    """

    def __init__(self, windowing: Windowing) -> None:
        self._driver = trigger.create_trigger_driver(windowing, is_batch=True, clock=time)
        self._combine = combine_stamps(windowing) or max
        self._picks_up = picks_up_the_rest(windowing)

    def of(self, elements: Iterable[WindowedValue]) -> Iterator[WindowedValue]:
        """Yield panes whose values are lists."""
        for pane in self._fired(self._gathered(elements)):
            values = list(chain.from_iterable(pane.value))
            yield WindowedValue(values, coded(pane.timestamp), pane.windows, pane.pane_info)

    def of_one(self, window: BoundedWindow, stamp: Timestamp, count: int) -> list[WindowedValue]:
        """Return the panes of a window; the value of each says whether elements are in it.

        Args:
            window: the only one.
        """
        panes = self._fired([WindowedValue(range(count), stamp, (window,))])
        return [pane.with_value(any(True for _ in pane.value)) for pane in panes]

    def _gathered(self, elements: Iterable[WindowedValue]) -> list[WindowedValue]:
        """Return one element for all in the same windows, with the deciding timestamp."""
        gathered: dict[Any, tuple[list[Any], list[int]]] = {}
        windows: Any = None
        values: list[Any] = []
        stamps: list[int] = []
        for element in elements:
            if windows is None or element.windows != windows:
                windows = element.windows
                values, stamps = gathered.setdefault(windows, ([], []))
            values.append(element.value)
            stamps.append(element.timestamp_micros)
        return [
            WindowedValue(values, Timestamp(micros=reduce(self._combine, stamps)), windows)
            for windows, (values, stamps) in gathered.items()
        ]

    def _fired(self, elements: list[WindowedValue]) -> Iterator[WindowedValue]:
        """Yield panes like the driver's ``process_entire_key``, with two additions.

        It cannot fire in processing time, and loses content that no trigger emits.
        """
        state = _State()
        put_out: set[BoundedWindow] = set()
        for pane in self._triggered(state, elements):
            put_out.update(pane.windows)
            yield pane
        for window, (id, *_) in list(trigger.MergeableStateAdapter(state).window_ids.items()):
            # All elements of a window are there before its first pane.
            if window in put_out:
                continue
            # The clock may not have come to the window before, for which the driver asks it.
            panes = list(
                self._driver.process_timer(id, "", TimeDomain.REAL_TIME, MAX_TIMESTAMP, state)
            )
            yield from panes
            if not panes and self._picks_up:
                yield last_pane(self._driver, state, window, MAX_TIMESTAMP)

    def _triggered(self, state: "_State", elements: list[WindowedValue]) -> Iterator[WindowedValue]:
        """Yield the panes that the trigger asks for.

        No element is late, so a processing-time timer set by an early trigger has nothing left to
        fire.
        """
        driver = self._driver
        yield from driver.process_elements(state, elements, MIN_TIMESTAMP, MIN_TIMESTAMP)
        ended: set[BoundedWindow] = set()
        while state.timers:
            due, _ = state.get_timers(clear=True, watermark=MAX_TIMESTAMP, processing_time=math.inf)
            for window_id, (name, domain, fire_time, _) in due:
                for pane in driver.process_timer(window_id, name, domain, fire_time, state):
                    if domain == TimeDomain.WATERMARK:
                        ended.update(pane.windows)
                    if domain == TimeDomain.WATERMARK or not ended.issuperset(pane.windows):
                        yield pane


def picks_up_the_rest(windowing: Windowing) -> bool:
    """Return whether a window emits at its expiry all that no trigger has emitted.

    Beam's model defines this. For triggers that may lose data, which a pipeline has to allow,
    Beam's own suites demand that they do lose it.
    """
    reason = windowing.triggerfn.may_lose_data(windowing)
    return bool(reason == trigger.DataLossReason.NO_POTENTIAL_LOSS)


class _State(trigger.InMemoryUnmergedState):
    """Trigger state that counts an element with the number of elements that it stands for.

    The driver adds an element to the state before it shows it to the trigger.
    """

    _weight = 1

    def add_state(self, window: Any, tag: Any, value: Any) -> None:
        if tag is _ELEMENTS:
            self._weight = len(value)
        if tag.tag.endswith(COUNT):
            self.state[window][tag.tag].extend([value] * self._weight)
        else:
            super().add_state(window, tag, value)

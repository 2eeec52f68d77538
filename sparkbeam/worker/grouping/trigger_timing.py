"""Beam's trigger driver, with times and pane timing according to Beam's model.

The watermark of a trigger is the input watermark, whichever timer wakes it. The driver of the
Python SDK uses the clock as the watermark when a processing-time timer fires, and then ends windows
that the watermark has not reached.

The panes of a window are early ones, then at most one on time, then late ones. The SDK's driver
checks only the output watermark, which another window may hold back. The rule here is that of the
Java SDK, ``PaneInfoTracker`` in its runners' core. Panes are early before the input watermark is
past the window. The first pane after that is on time, unless the output watermark is past the
window as well. All others are late. Only the pane on time may be without anything new.
"""

from collections.abc import Iterable, Iterator

from apache_beam.transforms.core import Windowing
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.trigger import GeneralTriggerDriver, MergeableStateAdapter
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.worker.grouping.shard_clock import ShardClock
from sparkbeam.worker.grouping.trigger_state import TriggerState
from sparkbeam.worker.grouping.triggers import asks_the_clock, by_the_model


class TimedTriggerDriver(GeneralTriggerDriver):
    """The trigger driver of a windowing.

    Args:
        moment: the current time, updated by the caller.
    """

    clock: ShardClock

    def __init__(self, windowing: Windowing, moment: ShardClock) -> None:
        super().__init__(windowing, moment)
        self.trigger_fn = by_the_model(windowing.triggerfn, moment)
        self._asks_the_clock = asks_the_clock(windowing.triggerfn)

    def process_elements(
        self,
        state: TriggerState,
        windowed_values: Iterable[WindowedValue],
        output_watermark: Timestamp,
        input_watermark: Timestamp = MIN_TIMESTAMP,
    ) -> Iterator[WindowedValue]:
        yield from super().process_elements(
            state, windowed_values, output_watermark, input_watermark
        )
        # Else the pane comes with the watermark itself.
        windows = MergeableStateAdapter(state).known_windows() if self._asks_the_clock else ()
        for window in windows:
            if output_watermark <= window.max_timestamp():
                state.hold_end(window)

    def process_timer(
        self,
        window_id: int,
        unused_name: str,
        time_domain: str,
        timestamp: Timestamp,
        state: TriggerState,
        input_watermark: Timestamp | None = None,
    ) -> Iterator[WindowedValue]:
        merged = MergeableStateAdapter(state)
        window = merged.get_window(window_id)
        if not state.is_closed(window):
            yield from self._pane_if_ready(window, state, merged)

    def _pane_if_ready(
        self, window: BoundedWindow, state: TriggerState, merged: MergeableStateAdapter
    ) -> Iterator[WindowedValue]:
        """Yield the pane of a window without new elements, if its trigger is ready."""
        watermark = Timestamp(micros=self.clock.input_watermark)
        context = merged.at(window, self.clock)
        finished = False
        if self.trigger_fn.should_fire(TimeDomain.WATERMARK, watermark, window, context):
            finished = self.trigger_fn.on_fire(watermark, window, context)
            if state.is_waiting(window) or self._is_on_time(window, merged):
                yield self._output(window, finished, merged, watermark, False)
                return
        if finished:
            merged.clear_state(window, self.ELEMENTS)
            merged.add_state(window, self.TOMBSTONE, 1)
        if finished or (self._is_past(window) and not state.is_waiting(window)):
            merged.clear_state(window, self.WATERMARK_HOLD)

    def _output(
        self,
        window: BoundedWindow,
        finished: bool,
        state: MergeableStateAdapter,
        output_watermark: Timestamp,
        maybe_ontime: bool,
    ) -> WindowedValue:
        is_past = self._is_past(window)
        on_time = is_past and self.clock.output_watermark <= window.max_timestamp().micros
        watermark = window.end if is_past else Timestamp(micros=self.clock.input_watermark)
        pane = super()._output(window, finished, state, watermark, on_time)
        if finished or is_past or not self.trigger_fn.has_ontime_pane():
            state.clear_state(window, self.WATERMARK_HOLD)
        return pane

    def _is_past(self, window: BoundedWindow) -> bool:
        return bool(self.clock.input_watermark > window.max_timestamp().micros)

    def _is_on_time(self, window: BoundedWindow, state: MergeableStateAdapter) -> bool:
        """Return whether the next pane is an on-time pane that fires even without new elements."""
        return (
            self.trigger_fn.has_ontime_pane()
            and self._is_past(window)
            and self.clock.output_watermark <= window.max_timestamp().micros
            and not state.get_state(window, self.NONSPECULATIVE_INDEX)
        )

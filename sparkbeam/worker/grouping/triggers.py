"""Beam's triggers according to its model: ready by their condition, not by a wake-up.

In the Python SDK a trigger that waits for the clock is ready whenever any processing-time timer
fires, and at no other time. Consequently an ``AfterAll`` misses it, an ``AfterAny`` that it has
fired does not finish, and a timer that was set before the last pane fires another one. Here a timer
only wakes the trigger driver. The trigger is ready if its delay is over, its elements are enough,
or the input watermark is at the end of the window.

State and processing-time timers have the names that the SDK gives them, also in checkpoints.
"""

from collections.abc import Iterator
from typing import Any

from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.trigger import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    NestedContext,
    Repeatedly,
    TriggerFn,
)
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.timestamp import Timestamp

from sparkbeam.upstream.beam import ListTag
from sparkbeam.worker.grouping.shard_clock import ShardClock


def by_the_model(trigger: TriggerFn, moment: ShardClock) -> TriggerFn:
    """Return the trigger with all its parts as the model has them."""

    def part(trigger: TriggerFn | None) -> TriggerFn | None:
        return None if trigger is None else by_the_model(trigger, moment)

    match trigger:
        case AfterProcessingTime():
            return _AfterProcessingTime(trigger.delay, moment)
        case AfterWatermark():
            return _AfterWatermark(part(trigger.early), part(trigger.late), moment)
        case AfterEach():
            return _AfterEach(*map(part, trigger.triggers))
        case AfterAny() | AfterAll():
            return type(trigger)(*map(part, trigger.triggers))
        case Repeatedly():
            return Repeatedly(part(trigger.underlying))
    return trigger


def parts_of(trigger: TriggerFn | None) -> Iterator[TriggerFn]:
    """Yield a trigger and all its parts."""
    if trigger is None:
        return
    yield trigger
    match trigger:
        case AfterWatermark():
            parts = [trigger.early, trigger.late]
        case AfterEach() | AfterAny() | AfterAll():
            parts = list(trigger.triggers)
        case Repeatedly():
            parts = [trigger.underlying]
        case _:
            parts = []
    for part in parts:
        yield from parts_of(part)


def asks_the_clock(trigger: TriggerFn) -> bool:
    """Return whether a trigger, or a part of it, waits for processing time."""
    return any(isinstance(part, AfterProcessingTime) for part in parts_of(trigger))


def counts_of(trigger: TriggerFn) -> list[int]:
    """Return the numbers of elements that a trigger waits for, in order."""
    parts = parts_of(trigger)
    return sorted({int(part.count) for part in parts if isinstance(part, AfterCount)})


class DelayTag(ListTag):
    """State tag for the ends of a trigger's processing-time delays, in microseconds.

    There is one for each merged window in which the trigger has seen an element.
    The end is zero after the timer has fired.
    """

    def with_prefix(self, prefix: str) -> "DelayTag":
        return DelayTag(prefix + self.tag)


class _AfterProcessingTime(AfterProcessingTime):
    """A trigger that is ready from the end of the delay after the first element on."""

    DELAYS = DelayTag(AfterProcessingTime.STATE_TAG.tag)

    def __init__(self, delay: float, moment: ShardClock) -> None:
        super().__init__(delay)
        self._moment = moment

    def on_element(self, element: Any, window: BoundedWindow, context: Any) -> None:
        if not context.get_state(self.STATE_TAG):
            super().on_element(element, window, context)

    def should_fire(
        self, time_domain: str, timestamp: Timestamp, window: BoundedWindow, context: Any
    ) -> bool:
        limit = self._moment.processing_limit()
        return any(end <= limit for end in context.get_state(self.DELAYS))

    def reset(self, window: BoundedWindow, context: Any) -> None:
        super().reset(window, context)
        context.clear_timer("", TimeDomain.REAL_TIME)


class _AfterWatermark(AfterWatermark):
    """A trigger that changes from early to late when the end of the window fires.

    A window that merges to one whose end is still to come goes back, as in the Java SDK.
    """

    def __init__(self, early: TriggerFn | None, late: TriggerFn | None, moment: ShardClock) -> None:
        super().__init__(early, late)
        self._moment = moment

    def on_element(self, element: Any, window: BoundedWindow, context: Any) -> None:
        if self._is_late(window, context):
            self.late.on_element(element, window, NestedContext(context, "late"))
            return
        context.set_timer("", TimeDomain.WATERMARK, window.end)
        if self.early:
            self.early.on_element(element, window, NestedContext(context, "early"))

    def on_merge(self, to_be_merged: Any, merge_result: BoundedWindow, context: Any) -> None:
        if self._is_late(merge_result, context):
            self.late.on_merge(to_be_merged, merge_result, NestedContext(context, "late"))
        elif self.early:
            self.early.on_merge(to_be_merged, merge_result, NestedContext(context, "early"))

    def should_fire(
        self, time_domain: str, watermark: Timestamp, window: BoundedWindow, context: Any
    ) -> bool:
        if self._is_late(window, context):
            nested = NestedContext(context, "late")
            return bool(self.late.should_fire(time_domain, watermark, window, nested))
        if watermark >= window.end or not self.early:
            return bool(watermark >= window.end)
        nested = NestedContext(context, "early")
        return bool(self.early.should_fire(time_domain, watermark, window, nested))

    def on_fire(self, watermark: Timestamp, window: BoundedWindow, context: Any) -> bool:
        if self.early and watermark >= window.end and not self.is_late(context):
            self.early.reset(window, NestedContext(context, "early"))
        return bool(super().on_fire(watermark, window, context))

    def _is_late(self, window: BoundedWindow, context: Any) -> bool:
        """Return whether the late trigger applies; go back if the end is still to come."""
        if not self.is_late(context):
            return False
        if self._moment.input_watermark >= window.end.micros:
            return True
        context.clear_state(self.LATE_TAG)
        self.late.reset(window, NestedContext(context, "late"))
        # An earlier version, which took the clock for the watermark, has set none.
        context.set_timer("", TimeDomain.WATERMARK, window.end)
        return False


class _AfterEach(AfterEach):
    """A sequence also evaluated at the end of a window, before the part that waits for it is next.

    Once it has finished, an ``AfterAll`` around it no longer waits for it.
    """

    def on_element(self, element: Any, window: BoundedWindow, context: Any) -> None:
        super().on_element(element, window, context)
        if self.has_ontime_pane():
            context.set_timer("", TimeDomain.WATERMARK, window.end)

    def should_fire(
        self, time_domain: str, watermark: Timestamp, window: BoundedWindow, context: Any
    ) -> bool:
        ready = super().should_fire(time_domain, watermark, window, context)
        return bool(ready) or self._has_finished(context)

    def on_fire(self, watermark: Timestamp, window: BoundedWindow, context: Any) -> bool:
        finished = super().on_fire(watermark, window, context)
        return bool(finished) or self._has_finished(context)

    def _has_finished(self, context: Any) -> bool:
        return bool(context.get_state(self.INDEX_TAG) >= len(self.triggers))

"""WindowFns that users write."""

from ast import literal_eval
from typing import Any

from apache_beam.coders.coders import Coder, IntervalWindowCoder
from apache_beam.transforms.window import (
    FixedWindows,
    IntervalWindow,
    NonMergingWindowFn,
    Sessions,
    WindowFn,
)
from apache_beam.utils.timestamp import Duration, Timestamp

DAY = Duration(24 * 60 * 60)


class _Intervals(NonMergingWindowFn):
    def get_window_coder(self) -> Coder:
        return IntervalWindowCoder()


class Sized(_Intervals):
    """Fixed windows whose length an element has."""

    def __init__(self, most: int) -> None:
        self._most = Duration.of(most)

    def assign(self, context: Any) -> list[IntervalWindow]:
        row, moment = context.element, context.timestamp
        size = Duration(micros=1000 * (row.number % 7 + 1)) if row.number > 0 else self._most
        start = moment - (moment - Timestamp.of(1)) % size
        return [IntervalWindow(start, start + size)]


class Calendar(_Intervals):
    """Days of a zone for some elements, and all of time for the others."""

    def assign(self, context: Any) -> tuple[IntervalWindow, ...]:
        if context.element.sensor == "a":
            return (IntervalWindow(Timestamp(-(10**6)), Timestamp(10**6)),)
        start = context.timestamp - (context.timestamp + 3600) % DAY
        return (IntervalWindow(start=start, end=start + DAY),)


class Several(_Intervals):
    """No window, or two of them."""

    def assign(self, context: Any) -> list[IntervalWindow]:
        starts = [0, 5] if context.element.number > 0 else []
        return [IntervalWindow(context.timestamp, context.timestamp + 1 + at) for at in starts]


class Called(_Intervals):
    """A window that no columns give."""

    def assign(self, context: Any) -> list[IntervalWindow]:
        return FixedWindows(1 + len(str(context.element))).assign(context)


class _SpelledCoder(Coder):
    def encode(self, value: Any) -> bytes:
        return repr((value.start.micros, value.end.micros)).encode()

    def decode(self, encoded: bytes) -> IntervalWindow:
        start, end = literal_eval(encoded.decode())
        return IntervalWindow(Timestamp(micros=start), Timestamp(micros=end))

    def is_deterministic(self) -> bool:
        return True


class Spelled(Called):
    """Windows that a coder of their own writes."""

    def get_window_coder(self) -> Coder:
        return _SpelledCoder()


class Gaps(WindowFn):
    """Sessions with gaps that elements have."""

    def assign(self, context: Any) -> list[IntervalWindow]:
        gap = 2 if context.element.maybe is None else context.element.maybe
        return [IntervalWindow(context.timestamp, context.timestamp + gap)]

    def get_window_coder(self) -> Coder:
        return IntervalWindowCoder()

    def merge(self, merge_context: WindowFn.MergeContext) -> None:
        Sessions(1).merge(merge_context)


class Chained(Gaps):
    """Windows that merge pair by pair, into equal copies and into other windows."""

    def merge(self, merge_context: WindowFn.MergeContext) -> None:
        several: Any = sorted(merge_context.windows, key=lambda window: window.start)
        while len(several) > 1 and several[0].end - several[0].start < DAY:
            one, other, *several = several
            copy = IntervalWindow(other.start, other.end)
            whole = IntervalWindow(min(one.start, other.start), max(one.end, other.end) + 1)
            merge_context.merge([one, copy], whole)
            several = [whole, *several]


OWN: dict[str, tuple[WindowFn, bool]] = {
    "sized": (Sized(3), True),
    "calendar": (Calendar(), True),
    "several": (Several(), False),
    "called": (Called(), False),
    "gaps": (Gaps(), True),
    "chained": (Chained(), True),
}
"""WindowFns, with whether they are evaluated over columns."""

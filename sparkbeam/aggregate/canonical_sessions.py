"""Sessions as Beam merges them: the reference."""

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import BoundedWindow, IntervalWindow, Sessions, WindowFn
from apache_beam.utils.timestamp import Timestamp

from sparkbeam.aggregate.aggregator import Session, Stamps, merged

Buffer = dict[Any, tuple[int, Any]]
"""Timestamp and accumulator of each session."""


class Merges(WindowFn.MergeContext):
    """Record of the windows that become one; told apart by identity, as far as possible.

    Attributes:
        places: the position of each given window, by its id.
    """

    def __init__(self, windows: list[BoundedWindow]) -> None:
        super().__init__(windows)
        self.places = {id(window): at for at, window in enumerate(windows)}
        self._equal: dict[BoundedWindow, BoundedWindow] = {}
        self._into: dict[int, tuple[BoundedWindow, BoundedWindow]] = {}

    def merge(self, to_be_merged: Any, merge_result: BoundedWindow) -> None:
        result = self._one(merge_result)
        for window in map(self._one, to_be_merged):
            if window is not result:
                self._into[id(window)] = window, result

    def _one(self, window: BoundedWindow) -> BoundedWindow:
        """Return the object that stands for equal windows."""
        if id(window) in self.places:
            return window
        if not self._equal:
            self._equal = {one: one for one in self.windows}
        return self._equal.setdefault(window, window)

    def result(self, window: BoundedWindow) -> BoundedWindow:
        """Return the final window that a given window has been merged into."""
        while id(window) in self._into:
            window = self._into[id(window)][1]
        return window

    def changed(self) -> Iterable[BoundedWindow]:
        """Return the windows that have become another one."""
        return (window for window, _ in self._into.values())


class CanonicalSessions:
    """Sessions that Beam's ``Sessions`` merges, given all windows each time.

    The time for an element is in proportion to the number of sessions.
    """

    def __init__(self, combine_fn: beam.CombineFn, stamps: Stamps) -> None:
        self._combine_fn = combine_fn
        self._stamps = stamps
        self._window_fn = Sessions(1)  # Only how long its own windows are depends on the gap.

    def zero(self) -> Buffer:
        return {}

    def reduce(self, buffer: Buffer, start: int, end: int, stamp: int, value: Any) -> Buffer:
        combine_fn = self._combine_fn
        window: Any = IntervalWindow(Timestamp(micros=start), Timestamp(micros=end))
        merges = Merges(list(buffer) if window in buffer else [*buffer, window])
        self._window_fn.merge(merges)
        joined = [buffer.pop(earlier) for earlier in merges.changed() if earlier in buffer]
        window = merges.result(window)
        if window in buffer:
            joined.append(buffer.pop(window))
        if joined:
            accumulator = merged(combine_fn, [accumulator for _, accumulator in joined])
            stamp = reduce(self._stamps, (earlier for earlier, _ in joined), stamp)
        else:
            accumulator = combine_fn.create_accumulator()
        buffer[window] = stamp, combine_fn.add_input(accumulator, value)
        return buffer

    def finish(self, buffer: Buffer) -> Iterator[Session]:
        for window in sorted(buffer, key=lambda window: window.start):
            yield Session(window.start.micros, window.end.micros, *buffer[window])

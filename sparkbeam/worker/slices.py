"""Slices of time: of equal length, and the windows of a fixed or sliding WindowFn are some of them.

An element of a sliding window of an hour every five minutes is in twelve windows, and in one slice
of five minutes. So it is added up once, and what has come together in a slice goes to the twelve.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from apache_beam.transforms.window import (
    BoundedWindow,
    IntervalWindow,
    SlidingWindows,
    WindowFn,
)
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp

from sparkbeam.columns.vectors import Micros, Positions
from sparkbeam.windows.window_lengths import whole_gap_of, whole_slots_of
from sparkbeam.worker.intervals import Intervals
from sparkbeam.worker.slots import slot_numbers

_MILLI = 1000
_BEGIN, _END = MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros

_WINDOWS_IN_SPAN = 4
"""Windows that begin in a span of so many lengths of a window go together."""


@dataclass(frozen=True)
class Slices:
    """How windows are made of slices.

    Attributes:
        offset: where some slice begins, in microseconds.
        length: of a slice, likewise.
        count: how many make a window.
    """

    offset: int
    length: int
    count: int

    @property
    def size(self) -> int:
        """How long a window is, in microseconds."""
        return self.length * self.count

    def numbers(self, times: Micros) -> Micros | None:
        """In which slice each time is; None where some have a window that leaves time's bounds."""
        if not len(times):
            return times
        if not self._are_inside(int(times.min()), int(times.max())):
            return None
        return slot_numbers(times, (self.offset, self.length))

    def of_intervals(self, given: Intervals) -> Micros | None:
        """The number of the slice that each window is; None where they are no single ones."""
        return self.numbers(given.starts) if self.count == 1 else None

    def shared(self, windows: Sequence[BoundedWindow], count: int) -> Micros | None:
        """The number of the slice of so many elements in the same windows.

        None where these are not all windows of a slice, or leave time's bounds.
        """
        if len(windows) != self.count or not all(type(one) is IntervalWindow for one in windows):
            return None
        start = max(window.start.micros for window in windows)
        if not self._are_inside(start, start):
            return None
        number = (start - self.offset) // self.length
        if set(windows) != set(self.windows(number)):
            return None
        return np.full(count, number, np.int64)

    def _are_inside(self, first: int, last: int) -> bool:
        """Whether all windows of all times between two are within time's bounds, and coded so."""
        return first - _BEGIN >= 2 * self.size and _END - last >= 2 * self.size

    def numbers_at(self, starts: Micros) -> Micros:
        """The numbers of slices that begin somewhere, in microseconds."""
        return (starts - self.offset) // self.length

    def starts(self, numbers: Micros) -> Micros:
        """Where slices begin, in microseconds."""
        return numbers * self.length + self.offset

    def in_windows(self, numbers: Micros) -> tuple[Positions, Micros]:
        """The windows that slices are in, all those of a slice before those of the next one.

        Args:
            numbers: of the slices.

        Returns:
            for each slice and window the place of the slice, and the number of the slice with
            which the window begins.
        """
        places = np.repeat(np.arange(len(numbers)), self.count)
        return places, numbers[places] - np.tile(np.arange(self.count), len(numbers))

    def window(self, number: int) -> IntervalWindow:
        """The window that begins with a slice."""
        start = number * self.length + self.offset
        return IntervalWindow(Timestamp(micros=start), Timestamp(micros=start + self.size))

    def windows(self, number: int) -> tuple[IntervalWindow, ...]:
        """All windows that a slice is in, the last first as Beam has them."""
        return tuple(self.window(number - back) for back in range(self.count))

    def spans(self, starts: Micros) -> Micros:
        """The number of the span of time in which each window begins, whose groups go together."""
        if self.count == 1:
            return starts
        found: Micros = starts // (_WINDOWS_IN_SPAN * self.size)
        return found

    def places(self, numbers: Micros, spans: Micros) -> Micros:
        """The places of slices on a line where no window of one span reaches into the next.

        Args:
            numbers: of the slices, each of which is in a window that begins in its span.
            spans: the number of the span of each.
        """
        return numbers + spans * self.count

    def at_places(self, places: Micros) -> Micros:
        """The numbers of the slices that are at such places."""
        return places - places // self._places_of_span * self.count

    def begins_at(self, places: Micros) -> tuple[Micros, Micros]:
        """The places where the first and the last window begin that a slice at a place is in."""
        first = places // self._places_of_span * self._places_of_span
        last = first + _WINDOWS_IN_SPAN * self.count - 1
        return np.maximum(places - self.count + 1, first), np.minimum(places, last)

    @property
    def _places_of_span(self) -> int:
        return (_WINDOWS_IN_SPAN + 1) * self.count

    def in_spans(self, starts: Micros) -> tuple[Positions, Micros]:
        """The spans in which windows begin that slices are in: one, or two that are neighbours.

        Args:
            starts: of the slices, in microseconds.

        Returns:
            for each slice and span the place of the slice, and the number of the span.
        """
        last, first = self.spans(starts), self.spans(starts - (self.size - self.length))
        both = np.flatnonzero(first != last)
        places = np.concatenate([np.arange(len(starts)), both])
        return places, np.concatenate([last, first[both]])


@dataclass(frozen=True)
class Moments(Slices):
    """Each millisecond with the window that begins there: those of sessions before they merge.

    Attributes:
        gap: how long the windows are, in microseconds.
    """

    gap: int

    @property
    def size(self) -> int:
        return self.gap

    def of_intervals(self, given: Intervals) -> Micros | None:
        if (given.ends - given.starts != self.gap).any():
            return None
        return self.numbers(given.starts)


def moments_of(window_fn: WindowFn) -> Moments | None:
    """The windows of sessions before they merge; None where Beam's coders round them."""
    gap = whole_gap_of(window_fn)
    return None if gap is None else Moments(0, _MILLI, 1, gap)


def slices_of(window_fn: WindowFn) -> Slices | None:
    """The slices of a WindowFn; None where its windows are not made of whole ones."""
    bounds = whole_slots_of(window_fn)
    if bounds is None:
        return None
    offset, length = bounds
    count = window_fn.size.micros // length if isinstance(window_fn, SlidingWindows) else 1
    return Slices(offset, length, count)

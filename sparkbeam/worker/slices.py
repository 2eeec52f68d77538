"""Slices of time of equal length, of which the windows of a fixed or sliding WindowFn consist.

An element of a sliding window of an hour every five minutes is in twelve windows, and in one slice
of five minutes. It is added up once, in the slice, and the sum of the slice goes to the twelve
windows.
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

from sparkbeam.accumulators.window_lengths import whole_gap_of, whole_slots_of
from sparkbeam.columns.vectors import Micros, Positions
from sparkbeam.worker.intervals import Intervals
from sparkbeam.worker.slots import slot_numbers

_MILLI = 1000
_BEGIN, _END = MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros

_WINDOWS_IN_SPAN = 4
"""Length of a span, in windows: windows that begin in the same span go together."""


@dataclass(frozen=True)
class Slices:
    """Division of windows into slices.

    Attributes:
        offset: the start of some slice, in microseconds.
    """

    offset: int
    length: int
    count: int

    @property
    def size(self) -> int:
        """Length of a window, in microseconds."""
        return self.length * self.count

    def numbers(self, times: Micros) -> Micros | None:
        """Return the slice of each time; None if some window leaves time's bounds."""
        if not len(times):
            return times
        if not self._are_inside(int(times.min()), int(times.max())):
            return None
        return slot_numbers(times, (self.offset, self.length))

    def of_intervals(self, given: Intervals) -> Micros | None:
        """Return the number of the slice that each window is; None if some are no single slices."""
        return self.numbers(given.starts) if self.count == 1 else None

    def shared(self, windows: Sequence[BoundedWindow], count: int) -> Micros | None:
        """Return the slice number of elements that share windows, ``count`` times.

        None if the windows are not all windows of a slice, or leave time's bounds.
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
        """Return whether the windows of all times between two are in time's bounds and coded so."""
        return first - _BEGIN >= 2 * self.size and _END - last >= 2 * self.size

    def numbers_at(self, starts: Micros) -> Micros:
        """Return the numbers of the slices that begin at these times, in microseconds."""
        return (starts - self.offset) // self.length

    def starts(self, numbers: Micros) -> Micros:
        """Return the starts of slices, in microseconds."""
        return numbers * self.length + self.offset

    def in_windows(self, numbers: Micros) -> tuple[Positions, Micros]:
        """Return the windows that slices are in, all those of a slice before those of the next one.

        Returns:
            for each slice and window the place of the slice, and the number of the slice with
            which the window begins.
        """
        places = np.repeat(np.arange(len(numbers)), self.count)
        return places, numbers[places] - np.tile(np.arange(self.count), len(numbers))

    def window(self, number: int) -> IntervalWindow:
        """Return the window that begins with a slice."""
        start = number * self.length + self.offset
        return IntervalWindow(Timestamp(micros=start), Timestamp(micros=start + self.size))

    def windows(self, number: int) -> tuple[IntervalWindow, ...]:
        """Return all windows that a slice is in, the last first as Beam has them."""
        return tuple(self.window(number - back) for back in range(self.count))

    def spans(self, starts: Micros) -> Micros:
        """Return the number of the time span of each window's start; its groups go together."""
        if self.count == 1:
            return starts
        found: Micros = starts // (_WINDOWS_IN_SPAN * self.size)
        return found

    def places(self, numbers: Micros, spans: Micros) -> Micros:
        """Return the places of slices on a line where no window of one span reaches into the next.

        Args:
            numbers: of the slices, each of which is in a window that begins in its span.
            spans: the number of the span of each.
        """
        return numbers + spans * self.count

    def at_places(self, places: Micros) -> Micros:
        """Return the numbers of the slices at positions that :meth:`places` returns."""
        return places - places // self._places_of_span * self.count

    def begins_at(self, places: Micros) -> tuple[Micros, Micros]:
        """Return the positions at which the first and the last window with a slice begin.

        The slice is given by its position.
        """
        first = places // self._places_of_span * self._places_of_span
        last = first + _WINDOWS_IN_SPAN * self.count - 1
        return np.maximum(places - self.count + 1, first), np.minimum(places, last)

    @property
    def _places_of_span(self) -> int:
        return (_WINDOWS_IN_SPAN + 1) * self.count

    def in_spans(self, starts: Micros) -> tuple[Positions, Micros]:
        """Return the spans that the windows of slices begin in: one, or two neighbours.

        Args:
            starts: the starts of the slices, in microseconds.

        Returns:
            for each slice and span the position of the slice, and the number of the span.
        """
        last, first = self.spans(starts), self.spans(starts - (self.size - self.length))
        both = np.flatnonzero(first != last)
        places = np.concatenate([np.arange(len(starts)), both])
        return places, np.concatenate([last, first[both]])


@dataclass(frozen=True)
class MillisecondSlots(Slices):
    """Milliseconds, each with the window that begins there: session windows before they merge.

    Attributes:
        gap: the length of the windows, in microseconds.
    """

    gap: int

    @property
    def size(self) -> int:
        return self.gap

    def of_intervals(self, given: Intervals) -> Micros | None:
        if (given.ends - given.starts != self.gap).any():
            return None
        return self.numbers(given.starts)


def moments_of(window_fn: WindowFn) -> MillisecondSlots | None:
    """Return the windows of sessions before they merge; None if Beam's coders round them."""
    gap = whole_gap_of(window_fn)
    return None if gap is None else MillisecondSlots(0, _MILLI, 1, gap)


def slices_of(window_fn: WindowFn) -> Slices | None:
    """Return the slices of a WindowFn; None if its windows are not made of whole ones."""
    bounds = whole_slots_of(window_fn)
    if bounds is None:
        return None
    offset, length = bounds
    count = window_fn.size.micros // length if isinstance(window_fn, SlidingWindows) else 1
    return Slices(offset, length, count)

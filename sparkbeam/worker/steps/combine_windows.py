"""Windows of pairs in columns, by number, as the map side of a combine groups by them."""

import numpy as np
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import BoundedWindow, Sessions
from apache_beam.utils.timestamp import MAX_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.columns.vectors import Micros, Positions
from sparkbeam.wire.rounding import coded_end
from sparkbeam.worker.blocks import GLOBAL, Block
from sparkbeam.worker.intervals import Intervals
from sparkbeam.worker.slices import Slices

_END_OF_TIME = MAX_TIMESTAMP.micros


class NumberedWindows:
    """Windows of any kind, numbered in the order in which they are first seen.

    Attributes:
        is_shared: a number stands for a slice of several windows.
    """

    is_shared = False

    def __init__(self, *, are_slices: bool = False) -> None:
        self.are_slices = are_slices
        self._numbers: dict[BoundedWindow, int] = {}
        self._windows: list[BoundedWindow] = []

    def number(self, window: BoundedWindow) -> int:
        """Return the number of a window."""
        number = self._numbers.setdefault(window, len(self._numbers))
        if number == len(self._windows):
            self._windows.append(window)
        return number

    def spans(self, numbers: Micros) -> tuple[Micros, Micros]:
        """Return the starts and ends of the numbered windows or slices.

        They identify windows, and are times only where windows are intervals.
        """
        return numbers, numbers

    def starting_at(self, start: int) -> tuple[BoundedWindow, ...]:
        """Return all windows of the number whose span has this start."""
        return (self._windows[start],)

    def whole(self, numbers: Micros) -> tuple[Positions, Micros, "NumberedWindows"]:
        """Return rows once for each of their windows: their positions, and numbers of windows."""
        return np.arange(len(numbers)), numbers, self


class SlicedWindows(NumberedWindows):
    """Fixed or sliding windows, or those of sessions before they merge, by their slices.

    Args:
        are_whole: a number stands for the one window that begins with the slice.
    """

    def __init__(self, slices: Slices, *, are_whole: bool = False) -> None:
        is_single = slices.count == 1
        super().__init__(are_slices=is_single or not are_whole)
        self._slices = slices
        self.is_shared = not (is_single or are_whole)
        self._whole = SlicedWindows(slices, are_whole=True) if self.is_shared else self

    def spans(self, numbers: Micros) -> tuple[Micros, Micros]:
        starts = self._slices.starts(numbers)
        return starts, starts + (self._slices.length if self.is_shared else self._slices.size)

    def starting_at(self, start: int) -> tuple[BoundedWindow, ...]:
        number = int(self._slices.numbers_at(np.array([start]))[0])
        if self.is_shared:
            return self._slices.windows(number)
        return (self._slices.window(number),)

    def whole(self, numbers: Micros) -> tuple[Positions, Micros, NumberedWindows]:
        if not self.is_shared:
            return super().whole(numbers)
        return (*self._slices.in_windows(numbers), self._whole)


def slice_numbers(block: Block, slices: Slices, windowing: Windowing) -> Micros | None:
    """Return each element's slice number; None if some are not in whole slices."""
    match block.assigned:
        case None:
            return slices.shared(block.windowing.windows, len(block))
        case Intervals() as given:
            return slices.of_intervals(given)
        case window_fn if window_fn != windowing.windowfn:
            return None
    return slices.numbers(block.time_column())


def template_of(window: BoundedWindow, windowing: Windowing) -> WindowedValue:
    """Return a windowed value with a window, at its end."""
    return GLOBAL if windowing.is_default() else WindowedValue(None, coded_end(window), (window,))


def own_spans(block: Block) -> tuple[Micros, Micros] | None:
    """Return the start and end of each element's window; None if all share theirs."""
    match block.assigned:
        case Intervals() as given:
            return given.starts, given.ends
        case Sessions() as window_fn:
            gap, starts = window_fn.gap_size.micros, block.time_column()
            # The end of time is one for all.
            return starts, np.minimum(starts, _END_OF_TIME - gap) + gap
    assert block.assigned is None
    return None

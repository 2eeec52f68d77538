"""Windows of a block in which each value has a separate window."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.timestamp import Timestamp

from sparkbeam.columns.vectors import Micros, Positions


@dataclass(frozen=True)
class Intervals:
    """An interval of time for each value, as groups by session or window have them.

    Attributes:
        starts, ends: in microseconds.
    """

    starts: Micros
    ends: Micros

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, rows: Positions | slice) -> "Intervals":
        """Return the intervals at some positions."""
        return Intervals(self.starts[rows], self.ends[rows])

    def windows(self) -> Iterator[tuple[IntervalWindow]]:
        """Yield the windows of each value; neighbours with the same one share it."""
        last: tuple[int, int] | None = None
        windows = (IntervalWindow(Timestamp(0), Timestamp(0)),)
        for span in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            if span != last:
                start, end = last = span
                windows = (IntervalWindow(Timestamp(micros=start), Timestamp(micros=end)),)
            yield windows

    def numbers(self) -> Micros:
        """Return a number for each value; values in the same window have the same number."""
        _, starts = np.unique(self.starts, return_inverse=True)
        ends, places = np.unique(self.ends, return_inverse=True)
        numbers: Micros = starts * len(ends) + places
        return numbers

"""Groups of rows that are equal in two numbers, and their aggregates.

If there are hardly more pairs of numbers than rows, each row is added at the position of its group;
that takes a fraction of the time of sorting the rows.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sparkbeam.accumulators.vectorized_accumulator import (
    Numbers,
    VectorizedAccumulator,
    combined_apart,
)
from sparkbeam.columns.order import arranged, sums_of

_Numbers = npt.NDArray[np.int64]
_Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class _Scattered:
    """Groups with a position each, and rows by the position of their group.

    Attributes:
        first, second: the numbers of each group.
        counts: the number of rows of each place.
        width: as many places have the same first number.
        least: the second number of the first place.
    """

    places: _Places
    counts: _Numbers
    present: _Places
    width: int
    least: int

    @property
    def first(self) -> _Numbers:
        return self.present // self.width

    @property
    def second(self) -> _Numbers:
        return self.present % self.width + self.least

    def added(self, form: VectorizedAccumulator, numbers: Numbers) -> Numbers | None:
        """Return the aggregate of the numbers of values; None if it is not exact."""
        found = form.add_apart(numbers, self.places, self.counts)
        return None if found is None else found[self.present]

    def combined(self, ufunc: np.ufunc, numbers: _Numbers) -> _Numbers:
        """Return sums, minima or maxima of numbers, by ``add``, ``minimum`` or ``maximum``."""
        return combined_apart(ufunc, numbers, self.places, len(self.counts))[self.present]


@dataclass(frozen=True)
class _Runs:
    """Groups whose rows follow each other in some order.

    Attributes:
        firsts: the start of each group, in that order.
        first, second: the numbers of each.
    """

    order: _Places
    firsts: _Places
    first: _Numbers
    second: _Numbers

    def added(self, form: VectorizedAccumulator, numbers: Numbers) -> Numbers | None:
        return form.add_in_order(numbers[self.order], self.firsts, merges=False)

    def combined(self, ufunc: np.ufunc, numbers: _Numbers) -> _Numbers:
        ordered = numbers[self.order]
        if ufunc is np.add:
            return sums_of(ordered, self.firsts)
        found: _Numbers = ufunc.reduceat(ordered, self.firsts)
        return found


Groups = _Scattered | _Runs


def groups_of(first: _Numbers, count: int, second: _Numbers) -> Groups:
    """Return the groups of rows, by their first number and then by the second.

    Args:
        first: of each row, of which there is one at least.
        count: first numbers are at least 0, and less than that.
        second: of each row.
    """
    least = int(second.min())
    width = int(second.max()) - least + 1
    if count * width > len(first):
        rows = arranged(first, second)
        firsts = rows.firsts()
        return _Runs(rows.order, firsts, rows.first[firsts], rows.second[firsts])
    places = first if width == 1 else first * width + (second - least)
    counts = np.bincount(places, minlength=count * width)
    return _Scattered(places, counts, np.flatnonzero(counts), width, least)

"""Conversion of groups by time slice to groups by window, after the shuffle.

Slices of a key and span are sorted. Then the slices of a window are contiguous, and windows are in
order, too.
"""

from dataclasses import dataclass

import numpy as np

from sparkbeam.aggregate.aggregates import Aggregates
from sparkbeam.aggregate.columnar_sessions import WindowColumns
from sparkbeam.columns.order import arranged, ranges_of
from sparkbeam.columns.vectors import Micros, Positions
from sparkbeam.worker.slices import Slices


@dataclass(frozen=True)
class _Windows:
    """Windows of keys, in their order.

    Attributes:
        keys: the number of each one's key.
        begins: the position of the first slice of each; see :meth:`Slices.places`.
        firsts, behind: which slices each has: the first of them, and the first that it has not.
    """

    keys: Micros
    begins: Micros
    firsts: Positions
    behind: Positions

    def slices(self) -> tuple[Positions, Positions]:
        """Return the concatenated slices of the windows, and the start of each window's."""
        return ranges_of(self.firsts, self.behind - self.firsts)


def windows_of_slices(slices: Slices, make: WindowColumns, given: Aggregates) -> Aggregates:
    """Return the windows that slices are in.

    Args:
        given: the slices, of which there is one at least, each with the number of its span in the
            place of its end. It goes to those of its windows that begin in the span.

    Returns:
        The windows by key and start; several with the same if numbers do not add up exactly.
    """
    places = slices.places(slices.numbers_at(given.starts), given.ends)
    merged = make.merge(Aggregates(given.keys, places, places, given.stamps, given.totals))
    if merged.totals.dtype == object:
        rows = arranged(given.keys, places)
        order = rows.order
        merged = Aggregates(
            rows.first, rows.second, rows.second, given.stamps[order], given.totals[order]
        )
    found = _windows(slices, merged.keys, merged.starts)
    of_each, firsts = found.slices()
    starts = slices.starts(slices.at_places(found.begins))
    ends = starts + slices.size
    return make.of_runs(merged, of_each, firsts, Aggregates(found.keys, starts, ends, ends, ends))


def _windows(slices: Slices, keys: Micros, places: Micros) -> _Windows:
    """Return the windows that slices are in, by key and place."""
    low, high = slices.begins_at(places)
    # Those of them that no slice before is in.
    follows = np.flatnonzero(keys[1:] == keys[:-1])
    low[follows + 1] = np.maximum(low[follows + 1], places[follows] + 1)
    counts = np.maximum(high - low + 1, 0)
    firsts = np.repeat(np.arange(len(keys)), counts)
    begins, _ = ranges_of(low, counts)
    keys_of, width = keys[firsts], slices.count
    known, ranks = np.unique(places, return_inverse=True)
    ends = keys_of * len(known) + np.searchsorted(known, begins + width)
    return _Windows(keys_of, begins, firsts, np.searchsorted(keys * len(known) + ranks, ends))

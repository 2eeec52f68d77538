"""Conversion of groups by time slice to groups by window, after the shuffle.

Slices of a key and span are sorted. Then the slices of a window are contiguous, and windows are in
order, too.
"""

import numpy as np

from sparkbeam.aggregate.aggregates import Aggregates
from sparkbeam.aggregate.columnar_sessions import WindowColumns
from sparkbeam.columns.order import arranged, ranges_of
from sparkbeam.columns.vectors import Micros, Positions
from sparkbeam.worker.slices import Slices


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
    keys, begins, of_each, firsts = _windows(slices, merged.keys, merged.starts)
    starts = slices.starts(slices.at_places(begins))
    ends = starts + slices.size
    return make.of_runs(merged, of_each, firsts, Aggregates(keys, starts, ends, ends, ends))


def _windows(
    slices: Slices, keys: Micros, places: Micros
) -> tuple[Micros, Micros, Positions, Positions]:
    """Return the windows that slices are in, by key and place.

    Returns:
        The number of each one's key, the position of its first slice (:meth:`Slices.places`), the
        concatenated slices of the windows, and the start of each window's.
    """
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
    behind = np.searchsorted(keys * len(known) + ranks, ends)
    return keys_of, begins, *ranges_of(firsts, behind - firsts)

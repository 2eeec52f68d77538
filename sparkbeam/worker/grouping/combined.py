"""Groups of accumulators over columns: many keys and windows are merged at once.

These groups require a combine with a vectorized form. A group leaves with one accumulator, merged
from all accumulators that belong to it.

Windows may be merged out of the slices that they share. Slices of a key and span are sorted. Then
the slices of a window are contiguous, and windows are in order, too.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import GlobalWindow, GlobalWindows, Sessions
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.aggregate.aggregates import Aggregates
from sparkbeam.aggregate.columnar_sessions import SessionColumns, WindowColumns
from sparkbeam.columns.order import arranged, ranges_of
from sparkbeam.columns.vectors import Micros, Positions
from sparkbeam.wire.failure import UserCodeFailed
from sparkbeam.wire.key_packs import CellKind, CellsOfKeys, CellsRead
from sparkbeam.wire.rounding import coded_column, coded_end
from sparkbeam.worker.blocks import GLOBAL, Block
from sparkbeam.worker.column_accumulators import Combine, Totals
from sparkbeam.worker.group_timestamps import combine_stamps, pane_of
from sparkbeam.worker.intervals import Intervals
from sparkbeam.worker.row_formats.aggregate_cells import AggregateReader
from sparkbeam.worker.slices import Slices, slices_of

_Keyed = tuple[pa.Array, Aggregates]
"""Distinct encoded keys, and groups with their numbers."""


class CombinedGroups:
    """Merger of the groups of rows: windows, or sessions if the windows are those."""

    def __init__(
        self, coder: coders.WindowedValueCoder, windowing: Windowing, combine: Combine
    ) -> None:
        stamps = combine_stamps(windowing)
        self._at_end = stamps is None
        self._is_global = isinstance(windowing.windowfn, GlobalWindows)
        time = coded_end(GlobalWindow()) if self._is_global else MIN_TIMESTAMP
        self._template = WindowedValue(None, time, GLOBAL.windows, pane_of(windowing))
        self._combine = combine
        self._make: SessionColumns = WindowColumns(combine.combine_fn, stamps or max)
        self._slices = slices_of(windowing.windowfn)
        if isinstance(windowing.windowfn, Sessions):
            self._make = SessionColumns(combine.combine_fn, stamps or max)
        pair = coder.wrapped_value_coder
        self._decode_key = pair.key_coder().get_impl().decode_nested
        self._cells = AggregateReader(pair.value_coder(), combine)

    def blocks(self, read: Iterator[CellsRead]) -> Iterator[Block]:
        """Yield the groups by key and window of aggregates, or the sessions."""
        before: _Keyed | None = None
        for some in read:
            keys, found = self._merged(before, some.some[CellKind.AGGREGATE])
            before = None
            if some.until is not None:
                _, until = some.until
                may_grow = (found.starts >= until) | (found.ends > until)
                before = _still_open(keys, found.part(may_grow))
                found = found.part(~may_grow)
            if len(found):
                yield self._block(found, keys)

    def _merged(self, before: _Keyed | None, some: CellsOfKeys) -> _Keyed:
        """Return the groups of cells, and those open before them."""
        keys = some.keys if before is None else pa.concat_arrays([before[0], some.keys])
        encoded = keys.dictionary_encode()
        numbers, parts = encoded.indices.to_numpy().astype(np.int64), []
        if before is not None:
            known, still_open = before
            parts.append(still_open.with_keys(numbers[still_open.keys]))
            numbers = numbers[len(known) :]
        try:
            parts += map(self._groups, self._cells.read(some.cells, numbers))
            return encoded.dictionary, self._make.merge(*parts)
        except Exception as error:
            raise UserCodeFailed(self._combine.label) from error

    def _groups(self, found: Aggregates) -> Aggregates:
        """Return the groups of cells, whose numbers are of slices if windows share these."""
        if self._slices is None or self._slices.count == 1 or not found.are_numbers:
            return found
        assert isinstance(self._make, WindowColumns)
        return _windows_of_slices(self._slices, self._make, found)

    def _block(self, found: Aggregates, encoded: pa.Array) -> Block:
        """Return a block of groups and their encoded keys, by the number that these have there."""
        keys, places = list(map(self._decode_key, encoded.to_pylist())), found.keys
        values: list[Any] | Totals | None = None
        if found.are_numbers:
            values = self._combine.grouped(keys, places, found.totals)
        if values is None:
            each = zip(places.tolist(), self._make.accumulators(found), strict=True)
            values = [(keys[place], [accumulator]) for place, accumulator in each]
        stamps = None
        if not (self._is_global and self._at_end):
            stamps = coded_column(found.ends - 1 if self._at_end else found.stamps)
        windows = None if self._is_global else Intervals(found.starts, found.ends)
        return Block(self._template, values, stamps, windows)


def _still_open(keys: pa.Array, found: Aggregates) -> _Keyed:
    """Return groups to which later rows may belong, with the keys that they have."""
    numbers, places = np.unique(found.keys, return_inverse=True)
    return keys.take(pa.array(numbers)), found.with_keys(places)


def _windows_of_slices(slices: Slices, make: WindowColumns, given: Aggregates) -> Aggregates:
    """Return the windows that slices are in, which share the slices.

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

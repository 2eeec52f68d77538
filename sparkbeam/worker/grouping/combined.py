"""Groups of accumulators over columns: many keys and windows are merged at once.

These groups require a combine with a vectorized form. A group leaves with one accumulator, merged
from all accumulators that belong to it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import GlobalWindow, GlobalWindows
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.aggregate.aggregates import Aggregates
from sparkbeam.aggregate.columnar_sessions import SessionColumns, WindowColumns
from sparkbeam.columns.vectors import Micros
from sparkbeam.wire.failure import UserCodeFailed
from sparkbeam.wire.rounding import coded_column, coded_end
from sparkbeam.wire.row_packs import Unpacked
from sparkbeam.worker.blocks import GLOBAL, Block
from sparkbeam.worker.column_accumulators import Combine, Totals
from sparkbeam.worker.group_timestamps import combine_stamps
from sparkbeam.worker.grouping.sliced import windows_of_slices
from sparkbeam.worker.intervals import Intervals
from sparkbeam.worker.row_formats.aggregate_cells import AggregateReader
from sparkbeam.worker.row_formats.aggregate_rows import pane_of
from sparkbeam.worker.slices import Slices, slices_of

_Expand = Callable[[Aggregates, Micros], Aggregates]
"""Function of aggregates and their spans that makes their groups."""


@dataclass(frozen=True)
class _Open:
    """Groups to which later rows may belong.

    Attributes:
        keys: the encoded keys that there are.
        columns: the groups, by the numbers of their keys.
    """

    keys: pa.Array
    columns: Aggregates


class _Combined:
    """Merger of the groups of rows.

    Args:
        cells: reads the content of cells.
        expand: makes groups of that.
        make: merges these.
        block: makes a block of groups and their encoded keys.
        label: of the step that merges.
    """

    def __init__(
        self,
        cells: AggregateReader,
        expand: _Expand,
        make: SessionColumns,
        block: Callable[[Aggregates, pa.Array], Block],
        label: str,
    ) -> None:
        self._cells = cells
        self._expand = expand
        self._make = make
        self._block = block
        self._label = label

    def blocks(self, packed: Iterator[Unpacked]) -> Iterator[Block]:
        """Yield the groups of rows."""
        before: _Open | None = None
        for some in packed:
            keys, found = self._merged(before, some)
            before = None
            if some.until is not None:
                may_grow = (found.starts >= some.until) | (found.ends > some.until)
                before = _still_open(keys, found.part(may_grow))
                found = found.part(~may_grow)
            if len(found):
                yield self._block(found, keys)

    def _merged(self, before: _Open | None, some: Unpacked) -> tuple[pa.Array, Aggregates]:
        """Return keys, the groups of rows, and those open before them."""
        keys, numbers, parts = some.keys, some.places, []
        if before is not None:
            every = pa.concat_arrays([before.keys, keys]).dictionary_encode()
            keys, known = every.dictionary, every.indices.to_numpy().astype(np.int64)
            parts.append(before.columns.with_keys(known[before.columns.keys]))
            numbers = known[len(before.keys) :][numbers]
        try:
            for rows, found in self._cells.read(some.values, numbers, some.orders):
                parts.append(self._expand(found, some.spans[rows]))
            return keys, self._make.merge(*parts)
        except Exception as error:
            raise UserCodeFailed(self._label) from error


def _still_open(keys: pa.Array, columns: Aggregates) -> _Open:
    numbers, places = np.unique(columns.keys, return_inverse=True)
    return _Open(keys.take(pa.array(numbers)), columns.with_keys(places))


def _groups(found: Aggregates, spans: Micros) -> Aggregates:
    return found


class _Blocks:
    """Builder of blocks of groups.

    Args:
        windowing: of the elements that they are of.
        combine: the combine that has merged them.
        make: has merged them.
        coder: of the elements.
    """

    def __init__(
        self,
        windowing: Windowing,
        combine: Combine,
        make: SessionColumns,
        coder: coders.WindowedValueCoder,
    ) -> None:
        self._at_end = combine_stamps(windowing) is None
        self._is_global = isinstance(windowing.windowfn, GlobalWindows)
        time = coded_end(GlobalWindow()) if self._is_global else MIN_TIMESTAMP
        self._template = WindowedValue(None, time, GLOBAL.windows, pane_of(windowing))
        self._combine = combine
        self._make = make
        self._decode_key = coder.wrapped_value_coder.key_coder().get_impl().decode_nested

    def of(self, found: Aggregates, encoded: pa.Array) -> Block:
        """Return a block of groups and their encoded keys, by the number that these have there."""
        keys, places = list(map(self._decode_key, encoded.to_pylist())), found.keys
        totals = None
        if found.totals.dtype != object:
            totals = self._combine.grouped(keys, places, found.totals)
        values: list[Any] | Totals
        if totals is None:
            each = zip(places.tolist(), self._make.accumulators(found), strict=True)
            values = [(keys[place], [accumulator]) for place, accumulator in each]
        else:
            values = totals
        stamps = None
        if not (self._is_global and self._at_end):
            stamps = coded_column(found.ends - 1 if self._at_end else found.stamps)
        windows = None if self._is_global else Intervals(found.starts, found.ends)
        return Block(self._template, values, stamps, windows)


def combined_sessions(
    packed: Iterator[Unpacked],
    coder: coders.WindowedValueCoder,
    windowing: Windowing,
    combine: Combine,
) -> Iterator[Block]:
    """Yield the sessions of aggregates."""
    make = SessionColumns(combine.combine_fn, combine_stamps(windowing) or max)
    blocks = _Blocks(windowing, combine, make, coder)
    return _Combined(_cells(coder, combine), _groups, make, blocks.of, combine.label).blocks(packed)


def combined_totals(
    packed: Iterator[Unpacked],
    coder: coders.WindowedValueCoder,
    windowing: Windowing,
    combine: Combine,
) -> Iterator[Block]:
    """Yield the groups by key and window of aggregates."""
    make = WindowColumns(combine.combine_fn, combine_stamps(windowing) or max)
    blocks = _Blocks(windowing, combine, make, coder)
    slices = slices_of(windowing.windowfn)
    expand = _groups if slices is None or slices.count == 1 else _of_slices(slices, make)
    return _Combined(_cells(coder, combine), expand, make, blocks.of, combine.label).blocks(packed)


def _cells(coder: coders.WindowedValueCoder, combine: Combine) -> AggregateReader:
    return AggregateReader(coder.wrapped_value_coder.value_coder(), combine)


def _of_slices(slices: Slices, make: WindowColumns) -> _Expand:
    """Create the groups of slices, which are in several windows."""

    def groups(found: Aggregates, spans: Micros) -> Aggregates:
        if not found.are_numbers:
            return found
        # The end of each is that of its slice: so there is room for what tells them apart.
        return windows_of_slices(slices, make, replace(found, ends=spans))

    return groups

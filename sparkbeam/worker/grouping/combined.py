"""Groups of accumulators over columns: many keys and windows are merged at once.

For combines that have a vectorised form. A group has one accumulator when it leaves, which has come
of all that belong to it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import GlobalWindow, GlobalWindows
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.windows.columnar import Columns, Micros, SessionColumns, WindowColumns
from sparkbeam.wire.failure import UserCodeFailed
from sparkbeam.wire.rounding import coded_column, coded_end
from sparkbeam.wire.rows import BATCH_BYTES
from sparkbeam.worker.blocks import GLOBAL, Block
from sparkbeam.worker.intervals import Intervals
from sparkbeam.worker.layouts.accumulated import Accumulated, Cells
from sparkbeam.worker.layouts.totals import SUFFIX_BYTES, pane_of, spans_of
from sparkbeam.worker.slices import Slices, slices_of
from sparkbeam.worker.stamps import combine_stamps
from sparkbeam.worker.totals import Combine, Totals

_TIMES = 2
"""Before an accumulator: the end of its window, and the combined timestamp."""

_Expand = Callable[[Accumulated, Micros, Micros, pa.Array], Columns]
"""Makes groups of what some rows have, of their starts, the numbers of their keys, and all keys."""


@dataclass(frozen=True)
class _Open:
    """The last groups of the rows so far, to which the next ones may belong.

    Attributes:
        key: the encoded key of them all.
        columns: the groups, with the number 0 for their key.
    """

    key: bytes
    columns: Columns


class _Combined:
    """Merges the groups of rows that are sorted by key and order.

    Args:
        cells: reads what is in them.
        expand: makes groups of that.
        make: merges these.
        block: makes a block of groups and their encoded keys.
        label: of the step that merges.
    """

    def __init__(
        self,
        cells: Cells,
        expand: _Expand,
        make: SessionColumns,
        block: Callable[[Columns, pa.Array], Block],
        label: str,
    ) -> None:
        self._cells = cells
        self._expand = expand
        self._make = make
        self._block = block
        self._label = label

    def blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Block]:
        """The groups in batches of rows of data."""
        before: _Open | None = None
        for batch in batches:
            size = max(1, BATCH_BYTES * batch.num_rows // max(1, batch.nbytes))
            for start in range(0, batch.num_rows, size):
                before, block = self._merged(before, batch.slice(start, size))
                if block is not None:
                    yield block
        if before is not None:
            yield self._block(before.columns, pa.array([before.key], pa.binary()))

    def _merged(self, before: _Open | None, batch: pa.RecordBatch) -> tuple[_Open, Block | None]:
        """What is open behind a batch, and the groups up to there."""
        keys = batch.column(1).cast(pa.binary())
        firsts = np.flatnonzero(np.concatenate([[True], _differ(keys)]))
        distinct = keys.take(pa.array(firsts))
        numbers = np.repeat(np.arange(len(firsts)), np.diff(firsts, append=len(keys)))
        parts: list[Columns] = []
        if before is not None:
            if before.key != distinct[0].as_py():
                distinct = pa.concat_arrays([pa.array([before.key], pa.binary()), distinct])
                numbers += 1
            parts.append(before.columns)
        starts = batch.column(2).to_numpy()
        cells = batch.column(3).cast(pa.binary())
        try:
            for some in self._cells.read(cells):
                rows = some.of(starts), some.of(numbers)
                parts.append(self._expand(some, *rows, distinct))
            found = self._make.merge(*parts)
        except Exception as error:
            raise UserCodeFailed(self._label) from error
        closed = len(found) - _open(found, int(starts[-1]))
        last = found.part(slice(closed, None))
        zeros = np.zeros(len(last), np.int64)
        is_open = _Open(distinct[int(last.keys[0])].as_py(), last.with_keys(zeros))
        if not closed:
            return is_open, None
        return is_open, self._block(found.part(slice(0, closed)), distinct)


def _differ(keys: pa.Array) -> Any:
    """Whether each key but the first is another one than that before it."""
    differ = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1))
    return differ.to_numpy(zero_copy_only=False)


def _open(found: Columns, start: int) -> int:
    """How many of the last groups what starts later may still belong to."""
    is_last_key = found.keys == found.keys[-1]
    may_grow = is_last_key & ((found.starts >= start) | (found.ends > start))
    return len(found) - int(np.argmax(may_grow)) if may_grow.any() else 1


def _groups(found: Accumulated, starts: Micros, numbers: Micros, keys: pa.Array) -> Columns:
    ends, stamps = found.times
    return Columns(numbers, starts, ends, stamps, found.totals)


class _Blocks:
    """Makes blocks of groups.

    Args:
        windowing: of the elements that they are of.
        combine: how they have been merged.
        make: has merged them.
        coder: of the elements.
        suffix: how many bytes a row's key has behind the encoded key.
    """

    def __init__(
        self,
        windowing: Windowing,
        combine: Combine,
        make: SessionColumns,
        coder: coders.WindowedValueCoder,
        *,
        suffix: int,
    ) -> None:
        self._at_end = combine_stamps(windowing) is None
        self._is_global = isinstance(windowing.windowfn, GlobalWindows)
        time = coded_end(GlobalWindow()) if self._is_global else MIN_TIMESTAMP
        self._template = WindowedValue(None, time, GLOBAL.windows, pane_of(windowing))
        self._combine = combine
        self._make = make
        self._decode_key = coder.wrapped_value_coder.key_coder().get_impl().decode_nested
        self._suffix = suffix

    def of(self, found: Columns, keys_of_rows: pa.Array) -> Block:
        """A block of groups and the keys of rows, by the number that these have there."""
        keys, places = self._keys(keys_of_rows, found.keys)
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

    def _keys(self, encoded: pa.Array, places: Micros) -> tuple[list[Any], Micros]:
        """Keys, and the place of each group's among them."""
        if self._suffix:
            without = pc.binary_slice(encoded, 0, -self._suffix).dictionary_encode()
            encoded, places = without.dictionary, without.indices.to_numpy()[places]
        return list(map(self._decode_key, encoded.to_pylist())), places


def combined_sessions(
    batches: Iterator[pa.RecordBatch],
    coder: coders.WindowedValueCoder,
    windowing: Windowing,
    combine: Combine,
) -> Iterator[Block]:
    """The sessions of rows that are sorted by start."""
    make = SessionColumns(combine.combine_fn, combine_stamps(windowing) or max)
    blocks = _Blocks(windowing, combine, make, coder, suffix=0)
    return _Combined(_cells(coder, combine), _groups, make, blocks.of, combine.label).blocks(
        batches
    )


def combined_totals(
    batches: Iterator[pa.RecordBatch],
    coder: coders.WindowedValueCoder,
    windowing: Windowing,
    combine: Combine,
) -> Iterator[Block]:
    """The groups by key and window of ``Layout.TOTALS``."""
    make = WindowColumns(combine.combine_fn, combine_stamps(windowing) or max)
    is_global = isinstance(windowing.windowfn, GlobalWindows)
    blocks = _Blocks(windowing, combine, make, coder, suffix=0 if is_global else SUFFIX_BYTES)
    slices = slices_of(windowing.windowfn)
    expand = _groups if slices is None or slices.count == 1 else _of_slices(slices, make)
    return _Combined(_cells(coder, combine), expand, make, blocks.of, combine.label).blocks(batches)


def _cells(coder: coders.WindowedValueCoder, combine: Combine) -> Cells:
    return Cells(_TIMES, coder.wrapped_value_coder.value_coder(), combine)


def _of_slices(slices: Slices, make: SessionColumns) -> _Expand:
    """Makes the groups of slices, which are in several windows; equal slices are merged first."""

    def groups(found: Accumulated, starts: Micros, numbers: Micros, keys: pa.Array) -> Columns:
        if not found.are_numbers:
            return _groups(found, starts, numbers, keys)
        parts = _groups(found, starts, numbers, keys)
        merged = make.merge(parts)
        if merged.totals.dtype != object:
            parts = merged
        places, first = slices.in_windows(slices.numbers_at(parts.starts))
        begins = slices.starts(first)
        # A slice goes to each span in which windows begin that it is in.
        are_here = slices.spans(begins) == spans_of(keys)[parts.keys[places]]
        places, begins = places[are_here], begins[are_here]
        stamps, totals = parts.stamps[places], parts.totals[places]
        return Columns(parts.keys[places], begins, begins + slices.size, stamps, totals)

    return groups

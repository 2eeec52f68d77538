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
from apache_beam.transforms.window import TimestampCombiner
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.windows.aggregator import merged
from sparkbeam.windows.columnar import Columns, Micros, SessionColumns, objects
from sparkbeam.windows.form import Numbers
from sparkbeam.wire.failure import UserCodeFailed
from sparkbeam.wire.rounding import coded_column
from sparkbeam.wire.rows import BATCH_BYTES
from sparkbeam.worker.blocks import GLOBAL, Block
from sparkbeam.worker.intervals import Intervals
from sparkbeam.worker.layouts.numbers import mark_of, numbers_in
from sparkbeam.worker.layouts.values import RunCoder
from sparkbeam.worker.stamps import ON_TIME, combine_stamps
from sparkbeam.worker.totals import Combine

_TIME_BYTES = 8


@dataclass(frozen=True)
class _Open:
    """The last group of the rows so far, to which the next ones may belong.

    Attributes:
        key: its encoded key.
        columns: the group, with the number 0 for its key.
    """

    key: bytes
    columns: Columns


class _Cells:
    """Reads cells of accumulators that have some times before them.

    Args:
        times: how many.
        value: of the accumulators.
        combine: merges them.
    """

    def __init__(self, times: int, value: coders.Coder, combine: Combine) -> None:
        self._times = times
        self._runs = RunCoder(value.get_impl())
        self._combine = combine

    def read(self, cells: pa.Array) -> tuple[list[Micros], Numbers]:
        """The times and the totals: numbers, or accumulators in an array of objects."""
        form = self._combine.form
        found = None if form is None else numbers_in(cells, self._times, form.kind)
        if found is not None:
            return found
        size = self._times * _TIME_BYTES
        all_cells = cells.to_pylist()
        before = b"".join(cell[:size] for cell in all_cells)
        times = np.frombuffer(before, ">i8").astype(np.int64).reshape(len(all_cells), self._times)
        return list(times.T), objects([self._accumulator(cell[size:]) for cell in all_cells])

    def _accumulator(self, run: bytes) -> Any:
        combine = self._combine
        if mark_of(run, 0) >= 0:
            return merged(combine.combine_fn, self._runs.decode(run))
        assert combine.form is not None
        found = numbers_in(pa.array([run], pa.binary()), 0, combine.form.kind)
        assert found is not None
        (accumulator,) = combine.form.accumulators(found[1], combine.combine_fn)
        return accumulator


class Combined:
    """Merges the groups of rows that are sorted by key and order.

    Args:
        columns: makes columns of a batch of rows and the numbers of their keys.
        make: merges them.
        block: makes a block of groups and their encoded keys.
        label: of the step that merges.
    """

    def __init__(
        self,
        columns: Callable[[pa.RecordBatch, Micros], Columns],
        make: SessionColumns,
        block: Callable[[Columns, pa.Array], Block],
        label: str,
    ) -> None:
        self._columns = columns
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
        found = self._added(parts, batch, numbers)
        last = found.part(slice(len(found) - 1, None))
        is_open = _Open(distinct[int(last.keys[0])].as_py(), last.with_keys(np.zeros(1, np.int64)))
        if len(found) == 1:
            return is_open, None
        return is_open, self._block(found.part(slice(0, len(found) - 1)), distinct)

    def _added(self, parts: list[Columns], batch: pa.RecordBatch, numbers: Micros) -> Columns:
        columns = self._columns(batch, numbers)
        try:
            return self._make.merge(*parts, columns)
        except Exception as error:
            raise UserCodeFailed(self._label) from error


def _differ(keys: pa.Array) -> Any:
    """Whether each key but the first is another one than that before it."""
    differ = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1))
    return differ.to_numpy(zero_copy_only=False)


def combined_sessions(
    batches: Iterator[pa.RecordBatch],
    coder: coders.WindowedValueCoder,
    windowing: Windowing,
    combine: Combine,
) -> Iterator[Block]:
    """The sessions of rows that are sorted by start."""
    pair = coder.wrapped_value_coder
    decode_key = pair.key_coder().get_impl().decode_nested
    cells = _Cells(2, pair.value_coder(), combine)
    make = SessionColumns(combine.combine_fn, combine_stamps(windowing) or max)
    at_end = windowing.timestamp_combiner == TimestampCombiner.OUTPUT_AT_EOW

    def columns(batch: pa.RecordBatch, keys: Micros) -> Columns:
        (ends, stamps), totals = cells.read(batch.column(3).cast(pa.binary()))
        return Columns(keys, batch.column(2).to_numpy(), ends, stamps, totals)

    def block(found: Columns, encoded: pa.Array) -> Block:
        keys = list(map(decode_key, encoded.to_pylist()))
        stamps = coded_column(found.ends - 1 if at_end else found.stamps)
        return _block(found, keys, stamps, combine, make)

    return Combined(columns, make, block, combine.label).blocks(batches)


_ON_TIME = WindowedValue(None, MIN_TIMESTAMP, GLOBAL.windows, ON_TIME)


def _block(
    found: Columns, keys: list[Any], stamps: Micros, combine: Combine, make: SessionColumns
) -> Block:
    intervals = Intervals(found.starts, found.ends)
    totals = None
    if found.totals.dtype != object:
        totals = combine.grouped(keys, found.keys, found.totals)
    if totals is not None:
        return Block(_ON_TIME, totals, stamps, intervals)
    each = zip(found.keys.tolist(), make.accumulators(found), strict=True)
    values = [(keys[number], [accumulator]) for number, accumulator in each]
    return Block(_ON_TIME, values, stamps, intervals)

"""Rows of groups in packs: values by key and window, many keys in a row.

They are for groups at the end of their windows. The value of pairs in columns is a cell
(:mod:`sparkbeam.worker.row_formats.row_cells`); all others are runs, as in
:mod:`~sparkbeam.worker.row_formats.group_rows`. The encoding of each key is followed by start and
end of the window; if windows merge, they are before the cell instead, as all windows of a key are
needed at once.
"""

import struct
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.columns.vectors import Micros
from sparkbeam.wire.binary import between, buffer_of, fixed_cells, offsets_of
from sparkbeam.wire.key_packs import CellKind, CellsOfKeys, write, write_large
from sparkbeam.wire.rounding import coded_span, floored_column
from sparkbeam.wire.rows import CELL_BYTES
from sparkbeam.worker.blocks import Block, column_rows
from sparkbeam.worker.intervals import Intervals
from sparkbeam.worker.row_formats.encoded_keys import EncodedKeys
from sparkbeam.worker.row_formats.group_values import RunCoder
from sparkbeam.worker.row_formats.key_table import RunTable
from sparkbeam.worker.row_formats.pairs import halves_of
from sparkbeam.worker.row_formats.row_cells import RowCells
from sparkbeam.worker.row_formats.row_writer import Sink, WriterParameters
from sparkbeam.worker.slices import Slices, slices_of
from sparkbeam.worker.slots import are_scattered, in_slots

_MOST_WAITING = 32 << 20
_LARGE = 512 << 10
"""Size of values above which those of a key are a run, in bytes."""

SPAN = struct.Struct(">qq")
"""Window beside a key: start and end in microseconds, the finest unit of all coders."""
_SPAN = np.dtype([("start", ">i8"), ("end", ">i8")])


class PackedGroupSink(Sink):
    """Writer of packs, of columns and of other elements."""

    def __init__(self, output: WriterParameters) -> None:
        super().__init__(output)
        pair = output.coder.wrapped_value_coder
        self._runs = RunCoder(pair.value_coder().get_impl())
        self._table = RunTable(pair.key_coder().get_impl(), self._runs)
        self._keys = EncodedKeys(pair.key_coder())
        self._cells = RowCells(pair.value_coder())
        self._is_global = isinstance(output.windowing.windowfn, GlobalWindows)
        self._merges = output.windowing.windowfn.is_merging()
        self._slices = slices_of(output.windowing.windowfn)
        self._waiting: list[CellsOfKeys] = []
        self._bytes = 0

    def add(self, windowed_value: WindowedValue) -> None:
        key, value = windowed_value.value
        for window in windowed_value.windows:
            if self._table.add(window, key, value):
                self._flush_table()

    def _write_block(self, block: Block) -> None:
        refusal = self._gathered(block)
        if refusal is None:
            return
        is_apart = block.assigned is None or are_scattered(block)
        if is_apart and block.column is not None:
            self.refused(refusal)
        if block.assigned is None:
            for window in block.windowing.windows:
                if self._table.add_all(window, block.values):
                    self._flush_table()
        elif is_apart:
            self._write_elements(block)
        else:
            for part in in_slots(block):
                self._write_block(part)

    def _gathered(self, block: Block) -> str | None:
        """Add pairs in columns; return why they have to be added one by one."""
        halves = None if block.column is None else halves_of(block.column)
        if halves is None:
            return "its elements are not columns of pairs"
        cells = self._cells.encode(*halves[1])
        if cells is None:
            return f"values cannot be stored as cells: {halves[1][1]}"
        some = CellsOfKeys(self._keys.of(*halves[0]), cells)
        if self._is_global:
            self._wait(some)
            return None
        most = column_rows(len(some), some.nbytes) // max(1, len(some))
        windows = self._windows(block, max(1, most))
        if windows is None:
            return "its windows cannot be divided into time slices"
        for spans in windows:
            self._wait(_with_spans(some, spans))
        return None

    def _wait(self, some: CellsOfKeys) -> None:
        self._waiting.append(some)
        self._bytes += some.nbytes
        if self._bytes >= _MOST_WAITING:
            self._flush_waiting()

    def _windows(self, block: Block, most: int) -> Iterator[pa.Array] | None:
        """Yield the windows of elements as they follow the keys; None if they are unknown.

        Each time they are those of all elements, up to ``most`` of each: first one of each, then
        another one of each.
        """
        match block.assigned:
            case None:
                spans = [SPAN.pack(*coded_span(window)) for window in block.windowing.windows]
                return _repeated_spans(spans, len(block), most)
            case Intervals() as given:
                return iter((packed_spans(given.starts, given.ends),))
        slices = self._slices
        numbers = None if slices is None else slices.numbers(block.time_column())
        return None if slices is None or numbers is None else _spans_in(slices, numbers, most)

    def flush(self) -> None:
        self._flush_waiting()
        self._flush_table()

    def _flush_waiting(self) -> None:
        """Turn the pairs into rows that wait."""
        if not self._waiting:
            return
        some = CellsOfKeys.joined(self._waiting)
        self._waiting, self._bytes = [], 0
        found = some.keys.dictionary_encode()
        places = found.indices.to_numpy()
        sizes = np.bincount(places, np.diff(offsets_of(some.cells)))
        are_large = sizes > _LARGE
        if are_large.any():
            rows = np.flatnonzero(are_large[places])
            rows = rows[np.argsort(places[rows], kind="stable")]
            for part in np.split(rows, np.flatnonzero(np.diff(places[rows])) + 1):
                runs = self._large_runs(some.cells.take(pa.array(part)))
                self._write_runs([some.keys[int(part[0])].as_py()] * len(runs), runs)
            some = some.take(np.flatnonzero(~are_large[places]))
        if len(some):
            self._write_cells(CellKind.VALUES, some)

    def _large_runs(self, cells: pa.Array) -> list[bytes]:
        """Return the values in cells of a key, in runs as the coder writes them."""
        values = self._cells.values(cells)
        step = max(1, CELL_BYTES * len(cells) // max(1, cells.nbytes))
        starts = range(0, len(values), step)
        return [self._runs.encode(values[start : start + step]) for start in starts]

    def _flush_table(self) -> None:
        """Turn the runs of the table into rows."""
        keys: list[bytes] = []
        runs: list[bytes] = []
        size = 0
        for window, encoded, some, _ in self._table.take():
            suffix = b"" if self._is_global else SPAN.pack(*coded_span(window))
            keys += [key + suffix for key in encoded]
            runs += some
            size += sum(map(len, some))
            if size >= _MOST_WAITING:
                self._write_runs(keys, runs)
                keys, runs, size = [], [], 0
        self._write_runs(keys, runs)

    def _write_runs(self, keys: list[bytes], runs: list[bytes]) -> None:
        small = [at for at, run in enumerate(runs) if len(run) <= CELL_BYTES]
        if len(small) < len(runs):
            for key, run in zip(keys, runs, strict=True):
                if len(run) > CELL_BYTES:
                    at = len(key) - (SPAN.size if self._merges else 0)
                    write_large(self._rows, self._tag, key[:at], key[at:] + run)
            keys, runs = [keys[at] for at in small], [runs[at] for at in small]
        if keys:
            some = CellsOfKeys(pa.array(keys, pa.binary()), pa.array(runs, pa.binary()))
            self._write_cells(CellKind.RUNS, some)

    def _write_cells(self, kind: CellKind, some: CellsOfKeys) -> None:
        write(self._rows, self._tag, kind, _spans_in_cells(some) if self._merges else some)


def _with_spans(some: CellsOfKeys, spans: pa.Array) -> CellsOfKeys:
    """Return keys with windows behind them, possibly several for each key."""
    if len(spans) != len(some):
        some = some.take(np.tile(np.arange(len(some)), len(spans) // len(some)))
    return CellsOfKeys(joined(some.keys, spans), some.cells)


def joined(first: pa.Array, second: pa.Array) -> pa.Array:
    """Concatenate the values of two binary columns one by one."""
    return pc.binary_join_element_wise(first, second, pa.scalar(b"", pa.binary()))


def without_spans(keys: pa.Array) -> pa.Array:
    """Return keys, at least one, without the windows behind them."""
    offsets = offsets_of(keys).astype(np.int64)
    return between(buffer_of(keys), offsets[:-1], offsets[1:] - SPAN.size)


def _spans_in_cells(some: CellsOfKeys) -> CellsOfKeys:
    """Return the same with the window of each key before its cell."""
    ends = offsets_of(some.keys).astype(np.int64)[1:]
    spans = between(buffer_of(some.keys), ends - SPAN.size, ends)
    return CellsOfKeys(without_spans(some.keys), joined(spans, some.cells))


def _repeated_spans(spans: list[bytes], count: int, most: int) -> Iterator[pa.Array]:
    """Yield the windows shared by this many elements; see :meth:`PackedGroupSink._windows`."""
    for start in range(0, len(spans), most):
        part = pa.array(spans[start : start + most], pa.binary())
        yield part.take(pa.array(np.repeat(np.arange(len(part)), count)))


def _spans_in(slices: Slices, numbers: Micros, most: int) -> Iterator[pa.Array]:
    """Yield the windows of slices; see :meth:`PackedGroupSink._windows`."""
    for first in range(0, slices.count, most):
        back = np.arange(first, min(first + most, slices.count))
        starts = slices.starts((numbers - back[:, np.newaxis]).ravel())
        yield packed_spans(starts, starts + slices.size)


def packed_spans(starts: Micros, ends: Micros) -> pa.Array:
    """Return windows as they follow keys."""
    spans = np.empty(len(starts), _SPAN)
    spans["start"], spans["end"] = floored_column(starts), floored_column(ends)
    return fixed_cells(spans)


def spans_of(keys: pa.Array) -> tuple[Micros, Micros]:
    """Return the starts and ends of the windows behind keys, in microseconds."""
    ends = offsets_of(keys).astype(np.int64)[1:]
    data: npt.NDArray[np.uint8] = np.frombuffer(keys.buffers()[2], np.uint8)
    found = data[ends[:, np.newaxis] + np.arange(-SPAN.size, 0)].view(_SPAN)
    spans = found.reshape(len(keys))
    return spans["start"].astype(np.int64), spans["end"].astype(np.int64)

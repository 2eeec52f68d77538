"""Results of a join in Spark: triples of a key and an element of each side.

A row has the value of the left side in ``value``, that of the right side in ``other``, and null for
a missing element; ``kinds`` distinguishes cells of columns from encoded elements. If no value is
encoded by its coder, triples are columns.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.coders import coder_impl, coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import GlobalWindow, GlobalWindows, IntervalWindow
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.columns.python_types import NONE
from sparkbeam.columns.vectors import Positions
from sparkbeam.plan.join_columns import triple
from sparkbeam.wire.rounding import coded_end
from sparkbeam.wire.rows import AS_CELL, AS_ELEMENT, JOIN_KEY_END
from sparkbeam.worker.blocks import BLOCK_BYTES, BLOCK_SIZE, GLOBAL, Block, column_rows
from sparkbeam.worker.group_timestamps import ON_TIME, ONLY_FIRING
from sparkbeam.worker.intervals import Intervals
from sparkbeam.worker.row_formats.group_values import RunCoder
from sparkbeam.worker.row_formats.key_table import all_immutable
from sparkbeam.worker.row_formats.row_cells import RowCells
from sparkbeam.worker.value_columns import Column, column_of, column_of_keys

_KEY, _RIGHT, _LEFT, _KINDS = 1, 2, 3, 4
"""The columns of a row of a join."""

_ELEMENT, _CELL, _NOTHING = AS_ELEMENT, AS_CELL, 2
"""Content of a side in a row."""

_SIDES = 3

_ANYWHERE = WindowedValue(None, MIN_TIMESTAMP, GLOBAL.windows, ON_TIME)
"""Common fields of elements with own windows."""


@dataclass(frozen=True)
class _Keys:
    """The keys of rows and their windows.

    Attributes:
        keys: the distinct pairs of key and window.
        windowings: the common windowing of elements of each window.
        numbers: that of the window of each key among those.
        places: that of each row's key among the keys.
    """

    keys: list[Any]
    windowings: list[WindowedValue]
    numbers: Positions
    places: Positions


class JoinReader:
    """Reader of the rows of a join."""

    def __init__(
        self,
        left: coders.WindowedValueCoder,
        right: coders.WindowedValueCoder,
        windowing: Windowing,
    ) -> None:
        self._keys = _KeyReader(left.wrapped_value_coder.key_coder(), windowing)
        self._left, self._right = (
            _SideReader(side.wrapped_value_coder.value_coder()) for side in (left, right)
        )

    def blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Block]:
        """Yield the elements of batches of rows."""
        for batch in batches:
            for rows, left, right in _by_kinds(batch):
                if _ELEMENT in (left, right):
                    yield from self._elements(rows, left, right)
                else:
                    yield from self._columns(rows, left, right)

    def _elements(self, rows: pa.RecordBatch, left: int, right: int) -> Iterator[Block]:
        step = max(1, min(BLOCK_SIZE, BLOCK_BYTES * len(rows) // max(1, rows.nbytes)))
        for part in _parts(rows, step):
            keys = self._keys.read(part.column(_KEY))
            lefts = self._left.values(part.column(_LEFT), left)
            rights = self._right.values(part.column(_RIGHT), right)
            yield from _objects(keys, lefts, rights)

    def _columns(self, rows: pa.RecordBatch, left: int, right: int) -> Iterator[Block]:
        for part in _parts(rows, column_rows(len(rows), rows.nbytes)):
            for lefts, here in self._left.columns(part.column(_LEFT), left):
                of_left = part if here is None else part.take(pa.array(here))
                for rights, there in self._right.columns(of_left.column(_RIGHT), right):
                    of_both = of_left if there is None else of_left.take(pa.array(there))
                    some = lefts if there is None else lefts.take(there)
                    yield from _blocks(self._keys.read(of_both.column(_KEY)), some, rights)


def _objects(keys: _Keys, lefts: list[Any], rights: list[Any]) -> Iterator[Block]:
    """Yield triples as objects."""
    of_rows = map(keys.keys.__getitem__, keys.places.tolist())
    triples = list(zip(of_rows, lefts, rights, strict=True))
    for windowing, places in _by_window(keys):
        some = triples if places is None else [triples[at] for at in places.tolist()]
        yield Block(windowing, some)


def _blocks(keys: _Keys, left: Column, right: Column) -> Iterator[Block]:
    """Yield triples as columns, where keys form one."""
    distinct = column_of_keys(keys.keys)
    if distinct is None:
        yield from _objects(keys, left.values(), right.values())
        return
    key = distinct.take(keys.places)
    arrays = [key.array, left.array, right.array]
    shape = triple(key.shape, left.shape, right.shape)
    column = column_of(pa.StructArray.from_arrays(arrays, shape.names), shape)
    spans = [one.windows[0] for one in keys.windowings]
    if len(spans) == 1 or any(type(span) is not IntervalWindow for span in spans):
        for windowing, places in _by_window(keys):
            yield Block(windowing, column if places is None else column.take(places))
        return
    of_rows = keys.numbers[keys.places]
    starts, ends, times = (
        np.array(each, np.int64)[of_rows]
        for each in (
            [span.start.micros for span in spans],
            [span.end.micros for span in spans],
            [one.timestamp_micros for one in keys.windowings],
        )
    )
    yield Block(_ANYWHERE, column, times, Intervals(starts, ends))


class _KeyReader:
    """Reader of the keys of rows, with their windows."""

    def __init__(self, coder: coders.Coder, windowing: Windowing) -> None:
        key = coder.get_impl()
        self._decode_key = key.decode_from_stream
        # The end of a key, a zero byte, is as good as False.
        self._ended_keys = RunCoder(coder_impl.TupleCoderImpl([key, coder_impl.BooleanCoderImpl()]))
        self._decode_window: Callable[[bytes], Any] | None = None
        if not isinstance(windowing.windowfn, GlobalWindows):
            self._decode_window = windowing.windowfn.get_window_coder().decode
        self._windowings: dict[bytes, WindowedValue] = {}

    def read(self, column: pa.Array) -> _Keys:
        """Return the keys of a column."""
        composites = column.dictionary_encode()
        keys, ends = self._keys(composites.dictionary)
        numbers = {end: number for number, end in enumerate(dict.fromkeys(ends))}
        of_keys = np.fromiter(map(numbers.__getitem__, ends), np.int64, len(ends))
        if len(numbers) == 1:
            of_keys = np.zeros(len(keys), np.int64)
        windowings = list(map(self._windowing, numbers))
        return _Keys(keys, windowings, of_keys, composites.indices.to_numpy().astype(np.int64))

    def _keys(self, composites: pa.Array) -> tuple[list[Any], list[bytes]]:
        """Return the distinct keys and the encoded window of each; the global one once."""
        if self._decode_window is None:
            return [key for key, _ in _decoded(composites, self._ended_keys)], [b""]
        keys, ends = [], []
        for composite in composites.to_pylist():
            stream = coder_impl.create_InputStream(composite[: -len(JOIN_KEY_END)])
            keys.append(self._decode_key(stream, True))
            ends.append(stream.read_all(False))
        return keys, ends

    def _windowing(self, end: bytes) -> WindowedValue:
        """Return the common fields of elements of an encoded window: its end is their timestamp."""
        found = self._windowings.get(end)
        if found is None:
            if len(self._windowings) > BLOCK_SIZE:
                self._windowings.clear()
            pane = ONLY_FIRING if self._decode_window is None else ON_TIME
            window = GlobalWindow() if self._decode_window is None else self._decode_window(end)
            found = WindowedValue(None, coded_end(window), (window,), pane)
            self._windowings[end] = found
        return found


class _SideReader:
    """Reader of the values of a side."""

    def __init__(self, coder: coders.Coder) -> None:
        self._runs = RunCoder(coder.get_impl())
        self._cells = RowCells(coder)

    def values(self, column: pa.Array, kind: int) -> list[Any]:
        """Return the values of rows; None for null."""
        if kind == _ELEMENT:
            return _values(column, self._runs)
        return [None] * len(column) if kind == _NOTHING else self._cells.values(_as_binary(column))

    def columns(self, column: pa.Array, kind: int) -> Iterator[tuple[Column, Positions | None]]:
        """Yield the values of cells, as :meth:`RowCells.decode` gives them."""
        if kind == _NOTHING:
            return iter([(column_of(pa.nulls(len(column)), NONE), None)])
        return self._cells.decode(_as_binary(column))


def _by_kinds(batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int, int]]:
    """Yield the rows that have the same on both sides, and what that is.

    A side without an element reads the null in its place as an encoded element.
    """
    if not batch.num_rows:
        return
    kinds = batch.column(_KINDS).to_numpy()
    left, right = (
        np.where(
            batch.column(at).is_null().to_numpy(zero_copy_only=False), _NOTHING, kinds >> bit & 1
        )
        for bit, at in enumerate((_LEFT, _RIGHT))
    )
    no_cells = (left != _CELL) & (right != _CELL)
    numbers = np.where(no_cells, _ELEMENT, left * _SIDES + right)
    found = np.unique(numbers).tolist()
    for number in found:
        rows = batch if len(found) == 1 else batch.filter(pa.array(numbers == number))
        yield rows, *divmod(number, _SIDES)


def _parts(rows: pa.RecordBatch, step: int) -> Iterator[pa.RecordBatch]:
    return (rows.slice(start, step) for start in range(0, rows.num_rows, step))


def _by_window(keys: _Keys) -> Iterator[tuple[WindowedValue, Positions | None]]:
    """Yield the positions of the rows of each window, in order; None if all share it."""
    if len(keys.windowings) == 1:
        yield keys.windowings[0], None
        return
    of_row = keys.numbers[keys.places]
    order = np.argsort(of_row, kind="stable")
    firsts = np.searchsorted(of_row[order], np.arange(len(keys.windowings) + 1))
    for number, windowing in enumerate(keys.windowings):
        yield windowing, order[firsts[number] : firsts[number + 1]]


def _values(column: pa.Array, runs: RunCoder) -> list[Any]:
    """Return the values of a column of encodings; None for null.

    Equal values are one object if it is immutable, like the elements of a side in the
    pairs of a CoGroupByKey.
    """
    if column.null_count == len(column):
        return [None] * len(column)
    distinct = column.dictionary_encode()
    if 2 * len(distinct.dictionary) <= len(column):
        found = _decoded(distinct.dictionary, runs)
        if all_immutable(found):
            found.append(None)
            places = distinct.indices.fill_null(len(found) - 1)
            return list(map(found.__getitem__, places.to_pylist()))
    if not column.null_count:
        return _decoded(column, runs)
    some = iter(_decoded(column.drop_null(), runs))
    return [next(some) if is_there else None for is_there in column.is_valid().to_pylist()]


def _decoded(column: pa.Array, runs: RunCoder) -> list[Any]:
    """Return the values of a column without nulls, whose bytes are contiguous."""
    column = _as_binary(column)
    _, offsets, content = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset :][: len(column) + 1]
    content = b"" if content is None else content[int(bounds[0]) : int(bounds[-1])].to_pybytes()
    return runs.decode(RunCoder.of(len(column), content))


def _as_binary(column: pa.Array) -> pa.Array:
    return column if column.type == pa.binary() else column.cast(pa.binary())

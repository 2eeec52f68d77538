"""Reader of packs of groups: groups of many keys and windows at once.

A group whose values all came as columns and are few is part of a column of groups: pairs of a key
and a list. Values of several classes form a union there. All other groups are objects, one by one.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import GlobalWindow, GlobalWindows, IntervalWindow, WindowFn
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.columns.python_types import Lists, RecordShape, Shape, Union
from sparkbeam.columns.vectors import Positions
from sparkbeam.plan.group_columns import joined_shape
from sparkbeam.wire.binary import between, buffer_of, offsets_of, take_cells
from sparkbeam.wire.key_packs import CellKind, CellsOfKeys, CellsRead, bucket_and_order
from sparkbeam.wire.rounding import coded_column, coded_end
from sparkbeam.worker.blocks import GLOBAL, Block, column_rows
from sparkbeam.worker.group_timestamps import pane_of
from sparkbeam.worker.grouping.merging import merged_spans
from sparkbeam.worker.intervals import Intervals
from sparkbeam.worker.row_formats.group_packs import SPAN, joined, spans_of, without_spans
from sparkbeam.worker.row_formats.group_rows import by_window
from sparkbeam.worker.row_formats.group_values import RunCoder, ValuesBuilder
from sparkbeam.worker.row_formats.row_cells import RowCells
from sparkbeam.worker.value_columns import Column, column_of, column_of_keys

_NAMES = ("0", "1")
LIST_BYTES = 1 << 20
"""Maximum size of the cells of a group that is a list in a column, in bytes."""


class PackedGroups:
    """Groups at the end of their windows, read from packs."""

    def __init__(self, coder: coders.WindowedValueCoder, windowing: Windowing) -> None:
        pair = coder.wrapped_value_coder
        self._decode_key = pair.key_coder().get_impl().decode_nested
        self._runs = RunCoder(pair.value_coder().get_impl())
        self._cells = RowCells(pair.value_coder())
        self._is_global = isinstance(windowing.windowfn, GlobalWindows)
        self._pane = pane_of(windowing)
        self._merging = windowing.windowfn if windowing.windowfn.is_merging() else None
        self._open: CellsOfKeys | None = None
        self._built: dict[bytes, ValuesBuilder] = {}

    def blocks(self, read: Iterator[CellsRead]) -> Iterator[Block]:
        """Yield the groups of rows."""
        for some in read:
            if (runs := some.some.get(CellKind.RUNS)) is not None:
                if self._merging is not None:
                    runs = _spans_behind_keys(runs)
                for key, run in zip(runs.keys.to_pylist(), runs.cells.to_pylist(), strict=True):
                    self._builder(self._built, key).append(run)
            values, built = self._complete(some.some.get(CellKind.VALUES), some.until)
            if self._merging is not None:
                values, built = self._merged(self._merging, values, built)
            if values is not None and len(values):
                yield from self._of_columns(values, built)
            yield from by_window(self._elements(built), self._template)

    def _complete(
        self, values: CellsOfKeys | None, until: tuple[int, int] | None
    ) -> tuple[CellsOfKeys | None, dict[bytes, ValuesBuilder]]:
        """Return the values that no later row can add to: in columns, and others by key."""
        parts = [some for some in (self._open, values) if some is not None]
        values, built = CellsOfKeys.joined(parts) if parts else None, self._built
        self._open, self._built = None, {}
        if until is None:
            return values, built
        if values is not None:
            is_open = _is_open(values.keys, *until)
            self._open = values.take(np.flatnonzero(is_open))
            values = values.take(np.flatnonzero(~is_open))
        if built:
            encoded = pa.array(list(built), pa.binary())
            row_keys = encoded if self._merging is None else without_spans(encoded)
            for key in itertools.compress(list(built), _is_open(row_keys, *until)):
                self._built[key] = built.pop(key)
        return values, built

    def _merged(
        self, window_fn: WindowFn, values: CellsOfKeys | None, built: dict[bytes, ValuesBuilder]
    ) -> tuple[CellsOfKeys, dict[bytes, ValuesBuilder]]:
        """Return the values of complete keys by their merged windows, which follow the keys."""
        if values is None or not len(values):
            values = CellsOfKeys.joined([])
        else:
            values = _spans_behind_keys(values)
        found = values.keys.dictionary_encode()
        every = pa.concat_arrays([found.dictionary, pa.array(list(built), pa.binary())])
        into = merged_spans(window_fn, every) if len(every) else every
        others: dict[bytes, ValuesBuilder] = {}
        merged = into.slice(len(found.dictionary)).to_pylist()
        for key, builder in zip(merged, built.values(), strict=True):
            if key in others:
                others[key].extend(builder)
            else:
                others[key] = builder
        return CellsOfKeys(take_cells(into, found.indices.to_numpy()), values.cells), others

    def _builder(self, builders: dict[bytes, ValuesBuilder], key: bytes) -> ValuesBuilder:
        if key not in builders:
            builders[key] = ValuesBuilder(self._runs)
        return builders[key]

    def _of_columns(
        self, values: CellsOfKeys, large: dict[bytes, ValuesBuilder]
    ) -> Iterator[Block]:
        """Yield the groups that are columns; all others go to builders of values."""
        found = values.keys.dictionary_encode()
        keys, places = found.dictionary, found.indices.to_numpy()
        cells = take_cells(values.cells, np.argsort(places, kind="stable"))
        bounds = np.concatenate([[0], np.cumsum(np.bincount(places, minlength=len(keys)))])
        groups = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), cells)
        are_large = np.diff(offsets_of(cells).astype(np.int64)[bounds]) > LIST_BYTES
        if large:
            there = pa.array(list(large), pa.binary())
            are_large |= pc.is_in(keys, there).to_numpy(zero_copy_only=False)
        if are_large.any():
            mask = pa.array(are_large)
            self._build(keys.filter(mask), groups.filter(mask), large)
            mask = pc.invert(mask)
            keys, groups = keys.filter(mask), groups.filter(mask)
        step = column_rows(len(keys), groups.nbytes)
        for start in range(0, len(keys), step):
            some, part = keys.slice(start, step), groups.slice(start, step)
            column = self._column(some, part)
            if column is None:
                self._build(some, part, large)
            else:
                yield self._block(column, some)

    def _build(
        self, keys: pa.Array, groups: pa.ListArray, large: dict[bytes, ValuesBuilder]
    ) -> None:
        """Pass groups of cells to builders."""
        values = iter(self._cells.values(groups.flatten()))
        for key, count in zip(keys.to_pylist(), groups.value_lengths().to_pylist(), strict=True):
            run = self._runs.encode(list(itertools.islice(values, count)))
            self._builder(large, key).append(run)

    def _column(self, keys: pa.Array, groups: pa.ListArray) -> Column | None:
        """Return groups as a column; None if keys or values form none."""
        encoded = keys if self._is_global else without_spans(keys)
        names = column_of_keys(list(map(self._decode_key, encoded.to_pylist())))
        items = None if names is None else _joined(list(self._cells.decode(groups.flatten())))
        if names is None or items is None:
            return None
        bounds = groups.offsets.to_numpy()
        lists = pa.ListArray.from_arrays(pa.array(bounds - bounds[0]), items[0])
        array = pa.StructArray.from_arrays([names.array, lists], _NAMES)
        return column_of(array, RecordShape(tuple, _NAMES, (names.shape, Lists(items[1]))))

    def _block(self, column: Column, keys: pa.Array) -> Block:
        if self._is_global:
            return Block(_at_end(GlobalWindow(), self._pane), column)
        starts, ends = spans_of(keys)
        template = WindowedValue(None, MIN_TIMESTAMP, GLOBAL.windows, self._pane)
        return Block(template, column, coded_column(ends - 1), Intervals(starts, ends))

    def _elements(
        self, large: dict[bytes, ValuesBuilder]
    ) -> Iterator[tuple[bytes, Any, ValuesBuilder]]:
        """Yield windows, keys and values."""
        for encoded, values in large.items():
            end = len(encoded) - (0 if self._is_global else SPAN.size)
            yield encoded[end:], self._decode_key(encoded[:end]), values

    def _template(self, span: bytes) -> WindowedValue:
        if self._is_global:
            return _at_end(GlobalWindow(), self._pane)
        start, end = (Timestamp(micros=micros) for micros in SPAN.unpack(span))
        return _at_end(IntervalWindow(start, end), self._pane)


def _at_end(window: Any, pane: Any) -> WindowedValue:
    return WindowedValue(None, coded_end(window), (window,), pane)


def _is_open(keys: pa.Array, bucket: int, order: int) -> Any:
    """Return the mask of the keys whose rows may follow a bucket and an order."""
    if not len(keys):
        return np.zeros(0, np.bool_)
    buckets, orders = bucket_and_order(keys)
    return (buckets == bucket) & (orders >= order)


def _spans_behind_keys(some: CellsOfKeys) -> CellsOfKeys:
    """Return the same with the window before each cell behind its key."""
    offsets, data = offsets_of(some.cells).astype(np.int64), buffer_of(some.cells)
    starts = offsets[:-1] + SPAN.size
    spans = between(data, offsets[:-1], starts)
    return CellsOfKeys(joined(some.keys, spans), between(data, starts, offsets[1:]))


def _joined(parts: list[tuple[Column, Positions | None]]) -> tuple[pa.Array, Shape] | None:
    """Return values of several shapes as one column; None if no column holds them."""
    if len(parts) == 1:
        return parts[0][0].array, parts[0][0].shape
    shape = joined_shape([column.shape for column, _ in parts])
    if not isinstance(shape, Union):
        return None
    parts = sorted(parts, key=lambda part: shape.members.index(part[0].shape))
    count = sum(len(column) for column, _ in parts)
    codes, offsets = np.empty(count, np.int8), np.empty(count, np.int32)
    for code, (column, rows) in enumerate(parts):
        assert rows is not None
        codes[rows] = code
        offsets[rows] = np.arange(len(column))
    arrays = [column.array for column, _ in parts]
    names = [str(code) for code in range(len(arrays))]
    array = pa.UnionArray.from_dense(pa.array(codes), pa.array(offsets), arrays, names)
    return array, shape

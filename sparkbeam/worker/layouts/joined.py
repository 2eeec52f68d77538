"""``Layout.JOIN_SIDE`` and ``Layout.JOIN_KEYS``: the sides of a join by Spark.

A side has a row for each element and window: the key is the encoded key, then the window, then
:data:`~sparkbeam.wire.rows.JOIN_KEY_END`. The value is encoded by its coder, or it is the cell of
a column (:mod:`sparkbeam.worker.layouts.rowcells`): ``ord`` tells which. What comes out of the join
is read in :mod:`sparkbeam.worker.layouts.joinreader`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.columns.shapes import Shape
from sparkbeam.wire.rows import AS_CELL, AS_ELEMENT, JOIN_KEY_END, RowWriter
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.layouts.encodedkeys import EncodedKeys
from sparkbeam.worker.layouts.groups import window_suffix_coder
from sparkbeam.worker.layouts.pairs import halves_of
from sparkbeam.worker.layouts.rowcells import RowCells
from sparkbeam.worker.layouts.sink import Sink

_MOST_KEYS = 50_000
"""So many keys are remembered, so that one is not written again."""

_FEWEST_ROWS = 32
"""Fewer elements take less time than cells."""


class JoinSideSink(Sink):
    """``Layout.JOIN_SIDE``: a row for each element in each of its windows."""

    def __init__(
        self, tag: int, rows: RowWriter, coder: coders.WindowedValueCoder, windowing: Windowing
    ) -> None:
        self._tag = tag
        self._rows = rows
        pair = coder.wrapped_value_coder
        key, value = pair.key_coder(), pair.value_coder()
        self._encode_key = key.get_impl().encode_nested
        self._encode_value = value.get_impl().encode_nested
        self._encode_window = window_suffix_coder(windowing)
        self._keys = EncodedKeys(key)
        self._cells = RowCells(value)

    def write(self, windowed_value: WindowedValue) -> None:
        self._write([windowed_value.value], windowed_value.windows)

    def write_block(self, block: Block) -> None:
        if block.assigned is not None:
            super().write_block(block)
        elif len(block) < _FEWEST_ROWS or not self._write_column(block):
            self._write(block.values, block.windowing.windows)

    def _write(self, pairs: Sequence[tuple[Any, Any]], windows: Iterable[Any]) -> None:
        encode_key, encode_value = self._encode_key, self._encode_value
        keys = [encode_key(key) for key, _ in pairs]
        values = [encode_value(value) for _, value in pairs]
        for window in windows:
            end = self._encode_window(window) + JOIN_KEY_END
            self._extend([key + end for key in keys], values)

    def _extend(self, keys: list[bytes], values: list[bytes]) -> None:
        self._rows.extend(self._tag, keys, [AS_ELEMENT] * len(keys), values)

    def _write_column(self, block: Block) -> bool:
        """Writes a block that is a column; whether it could."""
        halves = None if block.column is None else halves_of(block.column)
        if halves is None:
            return False
        cells = self._column_cells(*halves[1])
        if cells is None:
            return False
        keys = self._keys.of(*halves[0])
        for window in block.windowing.windows:
            end = pa.scalar(self._encode_window(window) + JOIN_KEY_END, pa.binary())
            ended = pc.binary_join_element_wise(keys, end, pa.scalar(b"", pa.binary()))
            self._extend_columns(ended, cells)
        return True

    def _column_cells(self, values: pa.Array, shape: Shape) -> pa.Array | None:
        return self._cells.encode(values, shape)

    def _extend_columns(self, keys: pa.Array, cells: pa.Array) -> None:
        kinds = np.full(len(keys), AS_CELL, np.int64)
        self._rows.extend_columns(self._tag, keys, kinds, cells)

    def flush(self) -> None:
        """Nothing is held back."""


class JoinKeySink(JoinSideSink):
    """``Layout.JOIN_KEYS``: a row for each key and window, which has no value."""

    def __init__(
        self, tag: int, rows: RowWriter, coder: coders.WindowedValueCoder, windowing: Windowing
    ) -> None:
        super().__init__(tag, rows, coder, windowing)
        self._encode_value = lambda value: b""
        self._written: set[bytes] = set()

    def _extend(self, keys: list[bytes], values: list[bytes]) -> None:
        found = [key for key in dict.fromkeys(keys) if key not in self._written]
        if len(self._written) > _MOST_KEYS:
            self._written.clear()
        self._written.update(found)
        super()._extend(found, [b""] * len(found))

    def _column_cells(self, values: pa.Array, shape: Shape) -> pa.Array | None:
        return values

    def _extend_columns(self, keys: pa.Array, cells: pa.Array) -> None:
        self._extend(keys.unique().to_pylist(), [])

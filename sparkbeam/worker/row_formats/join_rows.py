"""Rows of the sides of a join by Spark.

A side has a row for each element and window: ``key`` is the encoded key, then the window, then
:data:`~sparkbeam.wire.rows.JOIN_KEY_END`. ``value`` is encoded by its coder, or it is the cell of a
column (:mod:`sparkbeam.worker.row_formats.row_cells`); ``ord`` distinguishes them. The output of
the join is read in :mod:`sparkbeam.worker.row_formats.join_reader`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.columns.python_types import Shape
from sparkbeam.columns.vectors import Bools, Positions
from sparkbeam.wire.rows import AS_CELL, AS_ELEMENT, JOIN_KEY_END
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.refusals import SCATTERED
from sparkbeam.worker.row_formats.encoded_keys import EncodedKeys
from sparkbeam.worker.row_formats.group_rows import window_suffix_coder
from sparkbeam.worker.row_formats.pairs import halves_of
from sparkbeam.worker.row_formats.partners import Partners
from sparkbeam.worker.row_formats.row_cells import RowCells
from sparkbeam.worker.row_formats.row_writer import Sink, WriterParameters

_MOST_KEYS = 50_000
"""Number of keys that are remembered, to write each only once."""

_FEWEST_ROWS = 32
"""Number of elements below which cells take more time than the elements."""


class JoinSideSink(Sink):
    """Writer of a row for each element in each of its windows."""

    def __init__(self, output: WriterParameters) -> None:
        super().__init__(output)
        pair = output.coder.wrapped_value_coder
        key, value = pair.key_coder(), pair.value_coder()
        self._encode_key = key.get_impl().encode_nested
        self._encode_value = value.get_impl().encode_nested
        self._encode_window = window_suffix_coder(output.windowing)
        self._keys = EncodedKeys(key)
        self._cells = RowCells(value)
        self._partners: Partners | None = None

    def keep_partners(self, keys: pa.Array) -> None:
        """Leave out rows without a partner, or some of them.

        Args:
            keys: those that are on the other side, binary and each once.
        """
        self._partners = Partners(keys)

    def add(self, windowed_value: WindowedValue) -> None:
        self._write([windowed_value.value], windowed_value.windows)

    def _write_block(self, block: Block) -> None:
        if block.assigned is not None:
            if block.column is not None:
                self.refused(SCATTERED)
            self._write_elements(block)
        elif len(block) < _FEWEST_ROWS or not self._write_column(block):
            self._write(block.values, block.windowing.windows)

    def _write(self, pairs: Sequence[tuple[Any, Any]], windows: Sequence[Any]) -> None:
        encode_key, encode_value = self._encode_key, self._encode_value
        keys = [encode_key(key) for key, _ in pairs]
        whole = None
        for window in windows:
            end = self._encode_window(window) + JOIN_KEY_END
            ended = [key + end for key in keys]
            found = self._found(ended, windows)
            if found is not None:
                at = np.flatnonzero(found).tolist()
                self._extend([ended[n] for n in at], [encode_value(pairs[n][1]) for n in at])
                continue
            if whole is None:
                whole = [encode_value(value) for _, value in pairs]
            self._extend(ended, whole)

    def _found(self, keys: list[bytes] | pa.Array, windows: Sequence[Any]) -> Bools | None:
        """Return the mask of the rows to write; None for all rows."""
        if self._partners is None:
            return None
        return self._partners.among(keys, in_one_window=len(windows) == 1)

    def _write_column(self, block: Block) -> bool:
        """Write a block that is a column; return whether it is one."""
        halves = None if block.column is None else halves_of(block.column)
        if halves is None:
            if block.column is not None:
                self.refused("its elements are not columns of pairs")
            return False
        (keys, of_keys), (values, shape) = halves
        keys = self._keys.of(keys, of_keys)
        windows = block.windowing.windows
        cells = None
        for window in windows:
            end = pa.scalar(self._encode_window(window) + JOIN_KEY_END, pa.binary())
            ended = pc.binary_join_element_wise(keys, end, pa.scalar(b"", pa.binary()))
            found = self._found(ended, windows)
            if found is not None:
                mask = pa.array(found)
                chosen = values.filter(mask)
                some = self._column_cells(chosen, shape) if len(chosen) else None
                self._extend_column(ended.filter(mask), some, block, np.flatnonzero(found))
                continue
            if cells is None:
                cells = self._column_cells(values, shape)
            self._extend_column(ended, cells, block, np.arange(len(block)))
        return True

    def _extend_column(
        self, keys: pa.Array, cells: pa.Array | None, block: Block, at: Positions
    ) -> None:
        """Write rows of a column, as elements if they cannot be cells."""
        if cells is not None:
            self._extend_columns(keys, cells)
        elif len(at):
            self.refused("its values cannot be stored as cells")
            values = block.values
            self._extend(keys.to_pylist(), [self._encode_value(values[n][1]) for n in at.tolist()])

    def _column_cells(self, values: pa.Array, shape: Shape) -> pa.Array | None:
        return self._cells.encode(values, shape)

    def _extend_columns(self, keys: pa.Array, cells: pa.Array) -> None:
        kinds = np.full(len(keys), AS_CELL, np.int64)
        self._rows.extend_columns(self._tag, keys, kinds, cells)

    def _extend(self, keys: list[bytes], values: list[bytes]) -> None:
        self._rows.extend(self._tag, keys, [AS_ELEMENT] * len(keys), values)

    def flush(self) -> None:
        """Hold nothing back."""


def writer(output: WriterParameters) -> Sink:
    """Return the writer of a port."""
    keys_only = output.port.format.keys_only
    return JoinKeySink(output) if keys_only else JoinSideSink(output)


class JoinKeySink(JoinSideSink):
    """Writer of a row for each key and window, which has no value."""

    def __init__(self, output: WriterParameters) -> None:
        super().__init__(output)
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

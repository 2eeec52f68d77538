"""Rows of elements, many one after the other in a cell, or in columns.

``key`` is null. ``ord`` numbers the cells of a task, from the number of its partition on. The first
byte of ``value`` is the kind of the cell.
"""

from collections.abc import Callable, Iterator

import numpy as np
from apache_beam.coders import coder_impl, coders
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.columns import FallBack
from sparkbeam.upstream.beam import clear
from sparkbeam.wire.rounding import coded_micros
from sparkbeam.wire.rows import (
    BLOCK_CELL,
    CELL_BYTES,
    COLUMN_CELL,
    PLAIN_CELL,
    STAMPED_CELL,
    Row,
)
from sparkbeam.worker.blocks import BLOCK_SIZE, SMALLEST_BLOCK, Block, in_blocks
from sparkbeam.worker.object_sizes import size_of
from sparkbeam.worker.row_formats.cells import KeyCells
from sparkbeam.worker.row_formats.column_cells import ColumnCoder
from sparkbeam.worker.row_formats.row_writer import Sink, WriterParameters
from sparkbeam.worker.slots import are_scattered, in_slots

_FEWEST_ROWS = 32
"""Number of elements below which a column cell takes more time than the elements."""


class ChunkSink(Sink):
    """Writer of elements one after the other, in cells, or in columns.

    For a rebalancing exchange, cells grow from small ones, so that few but heavy elements spread
    over all partitions. Timestamps keep their microseconds there, as Beam's Reshuffle has them
    travel as a part of the value in the global window.
    """

    def __init__(self, output: WriterParameters) -> None:
        super().__init__(output)
        coder, spreads = output.coder, output.port.spreads
        self._encode = coder.get_impl().encode_to_stream
        self._runs = KeyCells(coder)
        self._stream = coder_impl.create_OutputStream()
        self._seed = output.partition
        self._cells = 0
        self._limit = 1 if spreads else CELL_BYTES
        self._encode_columns = ColumnCoder(coder).encode
        self._in_micros = spreads and output.windowing.is_default()

    def add(self, windowed_value: WindowedValue) -> None:
        if self._in_micros and windowed_value.timestamp_micros % 1000:
            self._write_stamped(Block(windowed_value, [windowed_value.value]))
            return
        self._encode(windowed_value, self._stream, True)
        if self._stream.size() >= self._limit:
            self.flush()

    def _write_block(self, block: Block) -> None:
        if block.column is None:
            self._write_parts(block, size_of(block.values[0]), self._write_values)
        else:
            each = max(1, block.column.array.nbytes // len(block))
            self._write_parts(block, each, self._write_columns)

    def _write_parts(self, block: Block, each: int, write: Callable[[Block], None]) -> None:
        """Write a block in parts of the current cell size, by the size of a value."""
        start = 0
        while start < len(block):
            end = len(block)
            if self._limit < CELL_BYTES:
                end = min(end, start + max(1, self._limit // each))
            part = np.arange(start, end)
            write(block.take(part) if len(part) < len(block) else block)
            start = end

    def _write_columns(self, block: Block) -> None:
        if len(block) < _FEWEST_ROWS:
            self._write_values(block)
            return
        try:
            cell = self._encode_columns(block)
        except FallBack as refusal:
            self.refused(str(refusal))
            for start in range(0, len(block), BLOCK_SIZE):
                part = np.arange(start, min(start + BLOCK_SIZE, len(block)))
                self._write_values(block.take(part))
            return
        self.flush()
        self._append(cell)

    def _write_values(self, block: Block) -> None:
        if block.assigned is not None and not are_scattered(block):
            for part in in_slots(block):
                self._write_values(part)
        elif len(block) < SMALLEST_BLOCK or block.assigned is not None:
            self._write_elements(block)
        elif block.is_stamped or (self._in_micros and block.windowing.timestamp_micros % 1000):
            self._write_stamped(block)
        else:
            self._append(self._runs.encode(block))

    def _write_stamped(self, block: Block) -> None:
        stamps = block.times() if self._in_micros else map(coded_micros, block.times())
        self._append(self._runs.encode_stamped(block, stamps))

    def flush(self) -> None:
        if self._stream.size():
            self._append(PLAIN_CELL + self._stream.get())
            clear(self._stream)

    def _append(self, cell: bytes) -> None:
        self._rows.append(self._tag, None, self._seed + self._cells, cell)
        self._cells += 1
        if self._cells % 64 == 0:
            self._limit = min(self._limit * 8, CELL_BYTES)


def read(rows: Iterator[Row], coder: coders.WindowedValueCoder) -> Iterator[Block]:
    """Yield the elements."""
    decode_all = coder.get_impl().decode_all
    decode_blocks = KeyCells(coder).blocks
    decode_columns = ColumnCoder(coder).decode
    for _, _, cell in rows:
        if cell[:1] in (BLOCK_CELL, STAMPED_CELL):
            yield from decode_blocks(cell)
        elif cell[:1] == COLUMN_CELL:
            yield decode_columns(cell)
        else:
            yield from in_blocks(decode_all(cell[1:]))

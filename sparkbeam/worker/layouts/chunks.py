"""``Layout.CHUNKS``: elements one after the other."""

from collections.abc import Iterator

from apache_beam.coders import coder_impl, coders
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.upstream.beam import clear
from sparkbeam.wire.rows import BLOCK_CELL, CELL_BYTES, PLAIN_CELL, Row, RowWriter
from sparkbeam.worker.blocks import SMALLEST_BLOCK, Block, in_blocks
from sparkbeam.worker.layouts.cells import BlockCoder
from sparkbeam.worker.layouts.sink import Sink


class ChunkSink(Sink):
    """``Layout.CHUNKS``: elements one after the other, in growing cells.

    The first cells are small, so that few but heavy elements spread over all
    partitions of a rebalancing exchange.
    """

    def __init__(
        self, tag: int, rows: RowWriter, coder: coders.WindowedValueCoder, seed: int
    ) -> None:
        self._tag = tag
        self._rows = rows
        self._encode = coder.get_impl().encode_to_stream
        self._encode_block = BlockCoder(coder).encode
        self._stream = coder_impl.create_OutputStream()
        self._seed = seed
        self._cells = 0
        self._limit = 1

    def write(self, windowed_value: WindowedValue) -> None:
        self._encode(windowed_value, self._stream, True)
        if self._stream.size() >= self._limit:
            self.flush()

    def write_block(self, block: Block) -> None:
        is_small = self._limit < CELL_BYTES or len(block) < SMALLEST_BLOCK
        if is_small or block.stamps is not None:
            super().write_block(block)
        else:
            self._append(self._encode_block(block))

    def flush(self) -> None:
        if self._stream.size():
            self._append(PLAIN_CELL + self._stream.get())
            clear(self._stream)

    def _append(self, cell: bytes) -> None:
        self._rows.append(self._tag, None, self._seed + self._cells, cell)
        self._cells += 1
        if self._cells % 64 == 0:
            self._limit = min(self._limit * 8, CELL_BYTES)


def chunks(rows: Iterator[Row], coder: coders.WindowedValueCoder) -> Iterator[Block]:
    """``Layout.CHUNKS``."""
    decode_all = coder.get_impl().decode_all
    decode_block = BlockCoder(coder).decode
    for _, _, cell in rows:
        if cell[:1] == BLOCK_CELL:
            yield decode_block(cell)
        else:
            yield from in_blocks(decode_all(cell[1:]))

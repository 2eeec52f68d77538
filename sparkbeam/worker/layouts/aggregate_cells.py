"""Cells of many keys: numbers of a vectorized form, before a streaming GroupByKey.

A cell replaces a row for each key. All its accumulators have the windowing in the head of the cell,
or each has its own window, as sessions have before they merge, all of one length.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sparkbeam.columns.vectors import Micros, Positions
from sparkbeam.windows.vectorized_form import Kind, Numbers
from sparkbeam.wire.binary import binary, bytes_of, offsets_of
from sparkbeam.wire.rows import BLOCK_CELL, SPANS_CELL, Row
from sparkbeam.worker.layouts.cells import KeyCells
from sparkbeam.worker.layouts.number_cells import mark_of, marked

_HEAD = struct.Struct("<Iiq")
_OFFSET, _TIME, _COUNT = np.dtype("<i4"), np.dtype("<i8"), np.dtype("<u4")


def _none() -> Micros:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class AggregateCell:
    """Encoded keys, each once per window, with their numbers.

    Attributes:
        head: the start of the cell: its kind, and the windowing if all share it.
        keys: binary.
        numbers: of each.
        starts: the starts of the windows, in microseconds; empty if the head has the window.
        counts: the number of elements of each; empty likewise.
        length: of all windows, in microseconds.
    """

    head: bytes
    keys: pa.Array
    numbers: Numbers
    starts: Micros = field(default_factory=_none)
    counts: Micros = field(default_factory=_none)
    length: int = 0

    def taken(self, rows: Positions) -> "AggregateCell":
        """Return the accumulators at some positions."""
        starts, counts = self.starts, self.counts
        if len(starts):
            starts, counts = starts[rows], counts[rows]
        keys = self.keys.take(pa.array(rows))
        return AggregateCell(self.head, keys, self.numbers[rows], starts, counts, self.length)

    def packed(self) -> bytes:
        """Return the bytes of the cell."""
        offsets = offsets_of(self.keys)
        kind = self.numbers.dtype
        return b"".join(
            (
                self.head,
                _HEAD.pack(len(self.keys), mark_of(kind), self.length),
                self.starts.astype(_TIME).tobytes(),
                self.counts.astype(_COUNT).tobytes(),
                (offsets - offsets[0]).astype(_OFFSET).tobytes(),
                bytes_of(self.keys).tobytes(),
                self.numbers.astype(kind.newbyteorder("<")).tobytes(),
            )
        )

    @classmethod
    def unpacked(cls, cell: bytes, head: bytes, like: Kind) -> "AggregateCell":
        """Return the inverse of :meth:`packed`.

        Args:
            cell: it.
            head: the start of the cell.
            like: the type of the form's numbers.
        """
        count, mark, length = _HEAD.unpack_from(cell, len(head))
        at = len(head) + _HEAD.size
        spans = count if head == SPANS_CELL else 0
        starts = np.frombuffer(cell, _TIME, spans, at).astype(np.int64)
        at += spans * _TIME.itemsize
        counts = np.frombuffer(cell, _COUNT, spans, at).astype(np.int64)
        at += spans * _COUNT.itemsize
        offsets = np.frombuffer(cell, _OFFSET, count + 1, at).astype(np.int32)
        at += offsets.nbytes
        data = np.frombuffer(cell, np.uint8, int(offsets[-1]), at)
        kind = marked(mark, like)
        numbers = np.frombuffer(cell, kind.newbyteorder("<"), count, at + len(data))
        return cls(head, binary(offsets, data), numbers.astype(kind), starts, counts, length)

    def rows(self, cells: KeyCells, accumulators: Callable[[Numbers], list[bytes]]) -> list[Row]:
        """Return a row for each key, of the windowing in the head.

        Args:
            cells: writes and reads their cells.
            accumulators: makes encoded accumulators of numbers.
        """
        head = BLOCK_CELL + self.head[1:]
        encode = cells.values.encode
        each = zip(self.keys.to_pylist(), accumulators(self.numbers), strict=True)
        return [(key, 0, head + encode([accumulator])) for key, accumulator in each]

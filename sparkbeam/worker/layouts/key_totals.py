"""Cells of many keys: numbers of a vectorised form, of one windowing.

On the way to a GroupByKey in streaming they travel in the place of a row for each key. Who does
not merge numbers makes these rows of them.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sparkbeam.columns.vectors import Positions
from sparkbeam.windows.vectorized_form import Kind, Numbers
from sparkbeam.wire.binary import binary, bytes_of, offsets_of
from sparkbeam.wire.rows import BLOCK_CELL, Row
from sparkbeam.worker.layouts.cells import KeyCells
from sparkbeam.worker.layouts.number_cells import mark_of, marked

_HEAD = struct.Struct("<Ii")
_OFFSET = np.dtype("<i4")


@dataclass(frozen=True)
class KeyTotals:
    """Keys and the numbers that each has.

    Attributes:
        head: what a cell of them begins with: its kind, and the windowing.
        keys: binary.
        numbers: of each.
    """

    head: bytes
    keys: pa.Array
    numbers: Numbers

    def taken(self, rows: Positions) -> "KeyTotals":
        """Those at some positions."""
        return KeyTotals(self.head, self.keys.take(pa.array(rows)), self.numbers[rows])

    def cell(self) -> bytes:
        """All of them as a cell."""
        offsets = offsets_of(self.keys)
        kind = self.numbers.dtype
        return b"".join(
            (
                self.head,
                _HEAD.pack(len(self.keys), mark_of(kind)),
                (offsets - offsets[0]).astype(_OFFSET).tobytes(),
                bytes_of(self.keys).tobytes(),
                self.numbers.astype(kind.newbyteorder("<")).tobytes(),
            )
        )

    @classmethod
    def of_cell(cls, cell: bytes | memoryview, head: bytes, like: Kind) -> "KeyTotals":
        """The inverse of :meth:`cell`.

        Args:
            cell: it.
            head: what it begins with.
            like: the type of the form's numbers.
        """
        count, mark = _HEAD.unpack_from(cell, len(head))
        at = len(head) + _HEAD.size
        offsets = np.frombuffer(cell, _OFFSET, count + 1, at).astype(np.int32)
        at += offsets.nbytes
        data = np.frombuffer(cell, np.uint8, int(offsets[-1]), at)
        kind = marked(mark, like)
        numbers = np.frombuffer(cell, kind.newbyteorder("<"), count, at + len(data))
        return cls(head, binary(offsets, data), numbers.astype(kind))

    def rows(self, cells: KeyCells, accumulators: Callable[[Numbers], list[bytes]]) -> list[Row]:
        """A row for each key.

        Args:
            cells: writes and reads their cells.
            accumulators: makes encoded accumulators of numbers.
        """
        head = BLOCK_CELL + self.head[1:]
        encode = cells.values.encode
        each = zip(self.keys.to_pylist(), accumulators(self.numbers), strict=True)
        return [(key, 0, head + encode([accumulator])) for key, accumulator in each]

"""Cells of many keys, each with a window of its own: those of sessions before they merge.

What stands in a cell are numbers of a vectorised form. All windows are equally long.
"""

import struct
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from sparkbeam.columns.vectors import Micros, Positions
from sparkbeam.windows.vectorized_form import Kind, Numbers
from sparkbeam.wire.rows import SPANS_CELL
from sparkbeam.worker.layouts.key_totals import KeyTotals

_HEAD = struct.Struct("<Iq")
_TIME, _COUNT = np.dtype("<i8"), np.dtype("<u4")


@dataclass(frozen=True)
class KeySpans:
    """Keys, windows, and the numbers that each has.

    Attributes:
        totals: the keys, each as often as it has windows, and the numbers.
        starts: of the windows, in microseconds.
        counts: how many elements each of the numbers is of.
        length: of all windows, in microseconds.
    """

    totals: KeyTotals
    starts: Micros
    counts: Micros
    length: int

    @classmethod
    def of(
        cls, keys: pa.Array, numbers: Numbers, starts: Micros, counts: Micros, length: int
    ) -> "KeySpans":
        """Those of keys in binary."""
        return cls(KeyTotals(b"", keys, numbers), starts, counts, length)

    def taken(self, rows: Positions) -> "KeySpans":
        """Those at some positions."""
        totals = self.totals.taken(rows)
        return KeySpans(totals, self.starts[rows], self.counts[rows], self.length)

    def cell(self) -> bytes:
        """All of them as a cell."""
        parts = (
            SPANS_CELL,
            _HEAD.pack(len(self.starts), self.length),
            self.starts.astype(_TIME).tobytes(),
            self.counts.astype(_COUNT).tobytes(),
        )
        return replace(self.totals, head=b"".join(parts)).cell()

    @classmethod
    def of_cell(cls, cell: bytes, like: Kind) -> "KeySpans":
        """The inverse of :meth:`cell`.

        Args:
            cell: it.
            like: the type of the form's numbers.
        """
        at = len(SPANS_CELL)
        count, length = _HEAD.unpack_from(cell, at)
        at += _HEAD.size
        starts = np.frombuffer(cell, _TIME, count, at)
        at += starts.nbytes
        counts = np.frombuffer(cell, _COUNT, count, at)
        at += counts.nbytes
        totals = KeyTotals.of_cell(memoryview(cell)[at:], b"", like)
        return cls(totals, starts.astype(np.int64), counts.astype(np.int64), length)

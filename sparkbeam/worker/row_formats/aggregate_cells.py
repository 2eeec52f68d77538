"""Cells of aggregates: of one key, behind its times, or of many keys.

The accumulators of one key are a run of them, or numbers of a vectorized form, those of many keys
are numbers. Numbers are written and read as arrays, behind a *code* for the type of each. A reader
of cells of both kinds distinguishes them by the count of the run, which is negative for numbers.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam.coders import coders

from sparkbeam.accumulators.vectorized_accumulator import (
    FLOATS,
    INTS,
    MICROS,
    MOST_SCALE,
    Kind,
    Numbers,
    decimals_of,
    kind_of_leaves,
    leaves_of,
)
from sparkbeam.aggregate.aggregates import Aggregates, objects
from sparkbeam.aggregate.aggregator import merged
from sparkbeam.columns.vectors import Micros, Positions
from sparkbeam.wire.binary import binary, buffer_of, bytes_of, fixed_cells, offsets_of
from sparkbeam.wire.rows import BLOCK_CELL, SPANS_CELL, Row
from sparkbeam.worker.column_accumulators import Combine
from sparkbeam.worker.row_formats.cells import KeyCells
from sparkbeam.worker.row_formats.group_values import RunCoder

_COUNT, _TIME = np.dtype(">i4"), np.dtype(">i8")
_HEAD = struct.Struct("<Iq")
_TYPES = [INTS, FLOATS, MICROS, *map(decimals_of, range(MOST_SCALE + 1))]
"""The types of single numbers; the code of the first is 1."""
_OFFSET, _START, _ELEMENTS = np.dtype("<i4"), np.dtype("<i8"), np.dtype("<u4")

TIMES = struct.Struct(">qqq")
"""Prefix of accumulators: start and end of their window, and the combined timestamp.

In microseconds. Numbers of a slice that several windows share have its span in the place of the
end, which follows from the start.
"""


def number_cells(starts: Micros, ends: Micros, stamps: Micros, numbers: Numbers) -> pa.Array:
    """Return cells of numbers of a vectorized form, behind :data:`TIMES`."""
    cells = np.empty(len(numbers), _kind_of_cell(numbers.dtype))
    for number, times in enumerate((starts, ends, stamps)):
        cells["times"][:, number] = times
    cells["count"] = -1
    cells["codes"] = codes_of(numbers.dtype)
    cells["number"] = numbers
    return fixed_cells(cells)


def codes_of(kind: Kind) -> bytes:
    """Return the code of each number of a record."""
    return bytes(1 + _TYPES.index(leaf) for leaf in leaves_of(kind))


def kind_of_codes(codes: bytes, like: Kind) -> Kind:
    """Return the type of numbers with these codes."""
    return kind_of_leaves(like, (_TYPES[code - 1] for code in codes))


def _kind_of_cell(number: Kind) -> Kind:
    head = [("times", _TIME, (3,)), ("count", _COUNT), ("codes", f"S{len(codes_of(number))}")]
    return np.dtype([*head, ("number", number.newbyteorder(">"))])


class AggregateReader:
    """Reader of the cells of aggregates."""

    def __init__(self, value: coders.Coder, combine: Combine) -> None:
        self._runs = RunCoder(value.get_impl())
        self._combine = combine

    def read(self, cells: pa.Array, keys: Positions) -> Iterator[Aggregates]:
        """Yield the aggregates in cells by kind.

        Args:
            cells: binary, at least one.
            keys: the number of the key of each.
        """
        counts = _counts_of(cells)
        for are_runs in (False, True):
            rows = np.flatnonzero((counts >= 0) == are_runs)
            if not len(rows):
                continue
            some, of_keys = cells, keys
            if len(rows) < len(cells):
                some, of_keys = cells.take(pa.array(rows)), keys[rows]
            if are_runs:
                times, totals = self._runs_in(some)
                yield Aggregates(of_keys, times[0], times[1], times[2], totals)
            else:
                yield from self._numbers_in(some, of_keys)

    def _numbers_in(self, cells: pa.Array, keys: Positions) -> Iterator[Aggregates]:
        assert self._combine.form is not None
        like = self._combine.form.kind
        read = bytes_of(cells).view(_kind_of_cell(like))
        all_codes = read["codes"]
        is_one = bool((all_codes == all_codes[0]).all())
        for codes in all_codes[:1] if is_one else np.unique(all_codes):
            rows = slice(None) if is_one else all_codes == codes
            kind = kind_of_codes(codes, like)
            found = read[rows].view(_kind_of_cell(kind))
            starts, ends, stamps = found["times"].T.astype(np.int64, order="C")
            yield Aggregates(keys[rows], starts, ends, stamps, found["number"].astype(kind))

    def _runs_in(self, cells: pa.Array) -> tuple[Micros, Numbers]:
        all_cells = cells.to_pylist()
        times = np.array([TIMES.unpack_from(cell) for cell in all_cells]).T
        runs, fn = self._runs, self._combine.combine_fn
        found = [merged(fn, runs.decode(cell[TIMES.size :])) for cell in all_cells]
        return times, objects(found)


def _counts_of(cells: pa.Array) -> npt.NDArray[np.int64]:
    """Return the counts of the runs in cells; they are negative for numbers."""
    starts = offsets_of(cells)[:-1].astype(np.int64) + TIMES.size
    found = buffer_of(cells)[starts[:, np.newaxis] + np.arange(_COUNT.itemsize)]
    counts: npt.NDArray[np.int64] = found.view(_COUNT).reshape(len(cells)).astype(np.int64)
    return counts


@dataclass(frozen=True)
class AggregateCell:
    """Encoded keys, each once per window, with their numbers, in streaming.

    The cell replaces a row for each key. All its accumulators have the windowing in the head of the
    cell, or each has its own window, as sessions have before they merge, all of one length.

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
    starts: Micros = field(default_factory=lambda: np.empty(0, np.int64))
    counts: Micros = field(default_factory=lambda: np.empty(0, np.int64))
    length: int = 0

    def take(self, rows: Positions) -> "AggregateCell":
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
                _HEAD.pack(len(self.keys), self.length),
                codes_of(kind),
                self.starts.astype(_START).tobytes(),
                self.counts.astype(_ELEMENTS).tobytes(),
                (offsets - offsets[0]).astype(_OFFSET).tobytes(),
                bytes_of(self.keys).tobytes(),
                self.numbers.astype(kind.newbyteorder("<")).tobytes(),
            )
        )

    @classmethod
    def unpacked(cls, cell: bytes, head: bytes, like: Kind) -> "AggregateCell":
        """Return the inverse of :meth:`packed`."""
        count, length = _HEAD.unpack_from(cell, len(head))
        at = len(head) + _HEAD.size
        codes = cell[at : at + len(codes_of(like))]
        at += len(codes)
        spans = count if head == SPANS_CELL else 0
        starts = np.frombuffer(cell, _START, spans, at).astype(np.int64)
        at += spans * _START.itemsize
        counts = np.frombuffer(cell, _ELEMENTS, spans, at).astype(np.int64)
        at += spans * _ELEMENTS.itemsize
        offsets = np.frombuffer(cell, _OFFSET, count + 1, at).astype(np.int32)
        at += offsets.nbytes
        data = np.frombuffer(cell, np.uint8, int(offsets[-1]), at)
        kind = kind_of_codes(codes, like)
        numbers = np.frombuffer(cell, kind.newbyteorder("<"), count, at + len(data))
        return cls(head, binary(offsets, data), numbers.astype(kind), starts, counts, length)

    def rows(self, cells: KeyCells, accumulators: Callable[[Numbers], list[bytes]]) -> list[Row]:
        """Return a row for each key, of the windowing in the head.

        Args:
            accumulators: makes encoded accumulators of numbers.
        """
        head = BLOCK_CELL + self.head[1:]
        encode = cells.values.encode
        each = zip(self.keys.to_pylist(), accumulators(self.numbers), strict=True)
        return [(key, 0, head + encode([accumulator])) for key, accumulator in each]

"""Cells of aggregates: of one key, behind its times, or of many keys.

The accumulators of one key are a run of them, or numbers of a vectorized form, those of many keys
are numbers. Numbers are written and read as arrays. A reader of cells of both kinds distinguishes
them by the count of the run, which is negative for numbers: a *mark*, which distinguishes ints from
floats.
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
    Kind,
    Numbers,
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
_HEAD = struct.Struct("<Iiq")
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
    cells["mark"] = mark_of(numbers.dtype)
    cells["number"] = numbers
    return fixed_cells(cells)


def mark_of(kind: Kind) -> int:
    """Return a mark with a bit for each number that is set for a float."""
    bits = sum((leaf == FLOATS) << at for at, leaf in enumerate(leaves_of(kind)))
    return -1 - bits


def marked(mark: int, like: Kind) -> Kind:
    """Return the type of numbers with a mark."""
    bits = -1 - mark
    leaves = enumerate(leaves_of(like))
    return kind_of_leaves(like, (FLOATS if bits >> at & 1 else INTS for at, _ in leaves))


def _kind_of_cell(number: Kind) -> Kind:
    number = number.newbyteorder(">")
    return np.dtype([("times", _TIME, (3,)), ("mark", _COUNT), ("number", number)])


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
        marks = np.minimum(_marks_of(cells), 0)
        kinds = _kinds_of(marks)
        for mark in kinds:
            some, of_keys = cells, keys
            if len(kinds) > 1:
                rows = np.flatnonzero(marks == mark)
                some, of_keys = cells.take(pa.array(rows)), keys[rows]
            times, totals = self._runs_in(some) if mark == 0 else self._numbers_in(some, mark)
            yield Aggregates(of_keys, times[0], times[1], times[2], totals)

    def _numbers_in(self, cells: pa.Array, mark: int) -> tuple[Micros, Numbers]:
        assert self._combine.form is not None
        kind = marked(mark, self._combine.form.kind)
        found = bytes_of(cells).view(_kind_of_cell(kind))
        return found["times"].T.astype(np.int64, order="C"), found["number"].astype(kind)

    def _runs_in(self, cells: pa.Array) -> tuple[Micros, Numbers]:
        all_cells = cells.to_pylist()
        times = np.array([TIMES.unpack_from(cell) for cell in all_cells]).T
        runs, fn = self._runs, self._combine.combine_fn
        found = [merged(fn, runs.decode(cell[TIMES.size :])) for cell in all_cells]
        return times, objects(found)


def _marks_of(cells: pa.Array) -> npt.NDArray[np.int64]:
    """Return the run counts of cells; negative counts mark numbers."""
    starts = offsets_of(cells)[:-1].astype(np.int64) + TIMES.size
    found = buffer_of(cells)[starts[:, np.newaxis] + np.arange(_COUNT.itemsize)]
    marks: npt.NDArray[np.int64] = found.view(_COUNT).reshape(len(cells)).astype(np.int64)
    return marks


def _none() -> Micros:
    return np.empty(0, np.int64)


def _kinds_of(marks: Micros) -> list[int]:
    """Return the distinct marks; fast if all are equal."""
    found: list[int] = [int(marks[0])] if (marks == marks[0]).all() else np.unique(marks).tolist()
    return found


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
    starts: Micros = field(default_factory=_none)
    counts: Micros = field(default_factory=_none)
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
                _HEAD.pack(len(self.keys), mark_of(kind), self.length),
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
        count, mark, length = _HEAD.unpack_from(cell, len(head))
        at = len(head) + _HEAD.size
        spans = count if head == SPANS_CELL else 0
        starts = np.frombuffer(cell, _START, spans, at).astype(np.int64)
        at += spans * _START.itemsize
        counts = np.frombuffer(cell, _ELEMENTS, spans, at).astype(np.int64)
        at += spans * _ELEMENTS.itemsize
        offsets = np.frombuffer(cell, _OFFSET, count + 1, at).astype(np.int32)
        at += offsets.nbytes
        data = np.frombuffer(cell, np.uint8, int(offsets[-1]), at)
        kind = marked(mark, like)
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

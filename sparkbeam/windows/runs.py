"""The columnar aggregator: columns of sessions in runs, of which long ones are merged seldom."""

from collections.abc import Iterator
from itertools import chain
from operator import itemgetter
from typing import Any

import apache_beam as beam
import numpy as np

from sparkbeam.windows.aggregator import Session, Stamps
from sparkbeam.windows.columnar import Columns, Micros, SessionColumns
from sparkbeam.windows.pieces import merged_in_pieces

_WAITING = 4096
_GATHERED = 1 << 17
_MOST_GATHERED = 1 << 20
_PIECE = 1024


class _Run:
    """Columns of the same keys, in pieces of which each follows the one before.

    Args:
        make: merges columns.
        pieces: of which there is one at least.
    """

    def __init__(self, make: SessionColumns, pieces: list[Columns]) -> None:
        self._make = make
        self.pieces = pieces
        self._length = sum(map(len, pieces))

    def __len__(self) -> int:
        return self._length

    def extend(self, columns: Columns) -> int | None:
        """Takes in more at its end; says how many there were to merge.

        None where they reach back too far, and nothing has changed: of its own sessions they may
        reach fewer than they are.
        """
        last = self.pieces[-1]
        kept = last.place_of(columns)
        if kept == 0 or len(last) - kept > len(columns):
            return None
        merged = 0
        if kept < len(last):
            reached = last.part(slice(kept, None))
            count = columns.count_reached(reached)
            merged = len(reached) + count
            head = self._make.merge(reached, columns.part(slice(count)))
            columns = self._make.joined([head, columns.part(slice(count, None))])
            self.pieces[-1] = last.part(slice(kept))
        self._length += kept - len(last) + len(columns)
        self.pieces.append(columns)
        while self._has_small_pieces():
            self.pieces[-2:] = [self._make.joined(self.pieces[-2:])]
        return merged

    def _has_small_pieces(self) -> bool:
        return len(self.pieces) > 1 and len(self.pieces[-2]) <= len(self.pieces[-1]) < _PIECE


class Runs:
    """Columns of the same keys, each more than twice as long as the next.

    So an element is in as many merges as the number of sessions doubles, whatever comes at once;
    and in none where elements come in their order.

    Args:
        make: merges columns.

    Attributes:
        merged: how many sessions were merged at once the last time, with those that came; as many
            as came where they are a run of their own.
    """

    def __init__(self, make: SessionColumns) -> None:
        self._make = make
        self._runs: list[_Run] = []
        self.merged = 0

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def __iter__(self) -> Iterator[Columns]:
        for run in self._runs:
            yield from run.pieces

    def add(self, columns: Columns) -> None:
        """Takes in some more."""
        runs = self._runs
        merged = runs[-1].extend(columns) if runs else None
        if merged is None:
            runs.append(_Run(self._make, [columns]))
            merged = len(columns)
        self.merged = merged
        self._balance()

    def take(self, others: "Runs") -> None:
        """Takes in the runs of others."""
        for run in others._runs:
            self._runs.append(_Run(self._make, list(run.pieces)))
            self._balance()

    def _balance(self) -> None:
        """Merges runs until each is more than twice as long as the next."""
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            self._merge(2)

    def sessions(self) -> Iterator[tuple[int, Session]]:
        """The numbers of the keys, and the sessions, by both."""
        self._merge_all()
        return chain.from_iterable(map(self._make.sessions, list(self)))

    def columns(self) -> Columns | None:
        """All of them, by key and start; None if there are none."""
        self._merge_all()
        if not self._runs:
            return None
        (run,) = self._runs
        run.pieces = [self._make.joined(run.pieces)]
        return run.pieces[0]

    def _merge_all(self) -> None:
        if len(self._runs) > 1:
            self._merge(len(self._runs))

    def _merge(self, count: int) -> None:
        """Makes one of the last runs."""
        some = self._runs[-count:]
        self.merged = max(self.merged, sum(map(len, some)))
        pieces = merged_in_pieces(self._make, [run.pieces for run in some])
        self._runs[-count:] = [_Run(self._make, pieces)]


class Buffer:
    """The sessions of a key, and elements that are in none yet.

    Attributes:
        runs: the sessions, some of which may still be parts of one.
        waiting: of each element that came alone start, end, timestamp and value.
        columns: the same of those that came together, in columns.
        gathered: how many there are in these columns.
    """

    __slots__ = ("columns", "gathered", "runs", "waiting")

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.waiting: list[tuple[int, int, int, Any]] = []
        self.columns: list[tuple[Micros, Micros, Micros, list[Any]]] = []
        self.gathered = 0

    def __len__(self) -> int:
        return len(self.runs) + self.gathered + len(self.waiting)


class ColumnarSessions:
    """Keeps the sessions of a key as columns.

    Its buffers are as long as the sessions that are not merged yet, and what waits.

    Args:
        combine_fn: of their values. Nobody changes these, and columns of times, while they wait.
        stamps: of their timestamps.
    """

    def __init__(self, combine_fn: beam.CombineFn, stamps: Stamps) -> None:
        self._make = SessionColumns(combine_fn, stamps)

    def zero(self) -> Buffer:
        return Buffer(Runs(self._make))

    def reduce(self, buffer: Buffer, start: int, end: int, stamp: int, value: Any) -> Buffer:
        buffer.waiting.append((start, end, stamp, value))
        if len(buffer.waiting) >= _WAITING:
            self._gather(buffer)
        return buffer

    def reduce_all(
        self, buffer: Buffer, starts: Micros, ends: Micros, stamps: Micros, values: list[Any]
    ) -> Buffer:
        """Takes in many elements, of which there is one at least; see :meth:`reduce`."""
        if buffer.waiting:
            self._gather(buffer)
        self._take(buffer, starts, ends, stamps, values)
        return buffer

    def merge(self, left: Buffer, right: Buffer) -> Buffer:
        self._settle(left)
        self._settle(right)
        left.runs.take(right.runs)
        return left

    def finish(self, buffer: Buffer) -> Iterator[Session]:
        self._settle(buffer)
        return map(itemgetter(1), buffer.runs.sessions())

    def _gather(self, buffer: Buffer) -> None:
        """Puts elements that came alone into columns."""
        if buffer.waiting:
            *times, values = zip(*buffer.waiting, strict=True)
            buffer.waiting = []
            starts, ends, stamps = (np.array(column, np.int64) for column in times)
            self._take(buffer, starts, ends, stamps, list(values))

    def _take(
        self, buffer: Buffer, starts: Micros, ends: Micros, stamps: Micros, values: list[Any]
    ) -> None:
        buffer.columns.append((starts, ends, stamps, values))
        buffer.gathered += len(starts)
        # As many as had to be merged, so that the work for an element does not grow.
        if buffer.gathered >= min(max(_GATHERED, buffer.runs.merged), _MOST_GATHERED):
            self._settle(buffer)

    def _settle(self, buffer: Buffer) -> None:
        """Makes sessions of what waits."""
        self._gather(buffer)
        if not buffer.columns:
            return
        *times, values = zip(*buffer.columns, strict=True)
        starts, ends, stamps = map(np.concatenate, times)
        buffer.columns, buffer.gathered = [], 0
        keys = np.zeros(len(starts), np.int64)
        every = list(chain.from_iterable(values))
        buffer.runs.add(self._make.reduce(keys, starts, ends, stamps, every))

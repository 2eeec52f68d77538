"""The sessions of one key in columns, as an aggregator that tests may compare with others."""

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import apache_beam as beam
import numpy as np

from sparkbeam.aggregate.aggregator import Session, Stamps
from sparkbeam.aggregate.columnar_sessions import SessionColumns
from sparkbeam.aggregate.session_runs import Runs

WAITING = 3
"""So many elements become columns together."""


class Buffer:
    """What a key has: its sessions, and elements that are in none yet."""

    def __init__(self, make: SessionColumns) -> None:
        self.runs = Runs(make)
        self.waiting: list[tuple[int, int, int, Any]] = []

    def __len__(self) -> int:
        return len(self.runs) + len(self.waiting)


class ColumnSessions:
    """Adds columns of elements to runs, as tables of sessions do."""

    def __init__(self, combine_fn: beam.CombineFn, stamps: Stamps) -> None:
        self._make = SessionColumns(combine_fn, stamps)

    def zero(self) -> Buffer:
        return Buffer(self._make)

    def reduce(self, buffer: Buffer, start: int, end: int, stamp: int, value: Any) -> Buffer:
        buffer.waiting.append((start, end, stamp, value))
        if len(buffer.waiting) >= WAITING:
            self._settle(buffer)
        return buffer

    def reduce_all(self, buffer: Buffer, elements: list[tuple[int, int, int, Any]]) -> None:
        buffer.waiting += elements
        self._settle(buffer)

    def merge(self, left: Buffer, right: Buffer) -> Buffer:
        self._settle(left)
        self._settle(right)
        for columns in right.runs:
            left.runs.add(columns)
        return left

    def finish(self, buffer: Buffer) -> Iterator[Session]:
        self._settle(buffer)
        found = buffer.runs.aggregates()
        return iter(()) if found is None else map(itemgetter(1), self._make.sessions(found))

    def _settle(self, buffer: Buffer) -> None:
        if not buffer.waiting:
            return
        *times, values = zip(*buffer.waiting, strict=True)
        buffer.waiting = []
        keys = np.zeros(len(values), np.int64)
        starts, ends, stamps = (np.array(column, np.int64) for column in times)
        buffer.runs.add(self._make.reduce(keys, starts, ends, stamps, list(values)))

"""The sessions of many keys while a task gathers them."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol

import apache_beam as beam
import numpy as np

from sparkbeam.columns.vectors import Positions
from sparkbeam.windows.aggregator import Aggregator, Session, Stamps
from sparkbeam.windows.columnar import Columns, Micros, SessionColumns
from sparkbeam.windows.form import Numbers
from sparkbeam.windows.runs import Runs
from sparkbeam.wire.rounding import coded_column, floored_column
from sparkbeam.worker.sizes import size_of

Spans = tuple[Sequence[int], Sequence[int]]
"""The starts and the ends of windows, in microseconds."""

_NUMBER = itemgetter(0)


class SessionTable(Protocol):
    """Takes elements by the names of their keys.

    Attributes:
        keeps_values: values wait here, so that nobody may change them.
    """

    keeps_values: bool

    def __len__(self) -> int:
        """How many sessions there are, of elements that no longer wait."""

    def add(
        self,
        names: Sequence[Hashable],
        spans: Spans,
        stamps: Sequence[int],
        values: Sequence[Any],
    ) -> None:
        """Takes in elements, each in one window.

        Args:
            names: of their keys.
            spans: the starts and the ends of their windows.
            stamps: their timestamps.
            values: their values.
        """

    def settle(self) -> None:
        """Makes sessions of what waits."""

    def size(self) -> int:
        """About how many bytes the accumulators take."""

    def take(self) -> Iterator[tuple[Hashable, list[Session]]]:
        """All sessions by the names of the keys; the table is empty afterwards."""


class ReducedTable:
    """Reduces elements one by one.

    Args:
        aggregator: has a buffer for each key.
    """

    keeps_values = False

    def __init__(self, aggregator: Aggregator[Any]) -> None:
        self._aggregator = aggregator
        self._buffers: dict[Hashable, Any] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(
        self,
        names: Sequence[Hashable],
        spans: Spans,
        stamps: Sequence[int],
        values: Sequence[Any],
    ) -> None:
        reduce, buffers = self._aggregator.reduce, self._buffers
        starts, ends = (floored_column(times).tolist() for times in spans)
        times = coded_column(stamps).tolist()
        for name, start, end, stamp, value in zip(names, starts, ends, times, values, strict=True):
            buffer = buffers.get(name)
            if buffer is None:
                buffer = self._aggregator.zero()
            before = len(buffer)
            buffers[name] = buffer = reduce(buffer, start, end, stamp, value)
            self._count += len(buffer) - before

    def settle(self) -> None:
        """Nothing waits."""

    def size(self) -> int:
        finish = self._aggregator.finish
        return size_of([s.accumulator for b in self._buffers.values() for s in finish(b)])

    def take(self) -> Iterator[tuple[Hashable, list[Session]]]:
        buffers, self._buffers, self._count = self._buffers, {}, 0
        for name, buffer in buffers.items():
            yield name, list(self._aggregator.finish(buffer))


class ColumnarTable:
    """Lets elements wait, and makes sessions of all of them at once.

    Args:
        combine_fn: of the values.
        stamps: of the timestamps.
    """

    def __init__(self, combine_fn: beam.CombineFn, stamps: Stamps) -> None:
        self._make = SessionColumns(combine_fn, stamps)
        self.keeps_values = self._make.form is None or self._make.form.takes_values
        self._clear()

    def _clear(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._runs = Runs(self._make)
        self._wait()

    def _wait(self) -> None:
        self._keys: list[int] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._stamps: list[int] = []
        self._values: list[Any] = []
        self._waiting: list[tuple[Micros, Micros, Micros, Micros, Numbers]] = []

    def __len__(self) -> int:
        return len(self._runs)

    def add(
        self,
        names: Sequence[Hashable],
        spans: Spans,
        stamps: Sequence[int],
        values: Sequence[Any],
    ) -> None:
        numbers = self._numbers
        self._keys += [numbers.setdefault(name, len(numbers)) for name in names]
        self._starts += spans[0]
        self._ends += spans[1]
        self._stamps += stamps
        if self.keeps_values:
            self._values += values

    def add_columns(
        self,
        names: Sequence[Hashable],
        places: Positions,
        starts: Micros,
        ends: Micros,
        stamps: Micros,
        numbers: Numbers,
    ) -> None:
        """Takes in elements of columns.

        Args:
            names: of the keys that there are.
            places: that of each element's key among them.
            starts: of their windows.
            ends: the same.
            stamps: their timestamps.
            numbers: the values, in the vectorised form.
        """
        known = self._numbers
        keys = np.array([known.setdefault(name, len(known)) for name in names], np.int64)
        self._waiting.append((keys[places], starts, ends, stamps, numbers))

    def settle(self) -> None:
        for keys, starts, ends, stamps, values in self._all_that_waits():
            times = floored_column(starts), floored_column(ends), coded_column(stamps)
            self._runs.add(self._make.reduce(keys, *times, values))
        self._wait()

    def _all_that_waits(self) -> Iterator[tuple[Any, Any, Any, Any, Any]]:
        if self._keys:
            values = self._values if self.keeps_values else self._keys
            keys = np.array(self._keys, np.int64)
            yield keys, self._starts, self._ends, self._stamps, values
        of_kinds = defaultdict(list)
        for some in self._waiting:
            of_kinds[some[-1].dtype].append(some)
        for alike in of_kinds.values():
            columns = [np.concatenate(parts) for parts in zip(*alike, strict=True)]
            yield columns[0], columns[1], columns[2], columns[3], columns[4]

    def size(self) -> int:
        totals = [columns.totals for columns in self._runs]
        return sum(size_of(some.tolist()) for some in totals if some.dtype == object)

    def take_columns(self) -> tuple[list[Hashable], Columns] | None:
        """All sessions, and the names of the keys by their numbers; the table is empty then.

        None where some have accumulators, and nothing has been taken.
        """
        self.settle()
        found = self._runs.columns()
        if found is None or found.totals.dtype == object:
            return None
        names = list(self._numbers)
        self._clear()
        return names, found

    def take(self) -> Iterator[tuple[Hashable, list[Session]]]:
        self.settle()
        found, names = self._runs.sessions(), list(self._numbers)
        self._clear()
        for number, sessions in groupby(found, _NUMBER):
            yield names[number], [session for _, session in sessions]

"""The sessions of many keys while a task gathers them."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Protocol

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkbeam.aggregate.aggregates import Aggregates, objects
from sparkbeam.aggregate.aggregator import Aggregator, Session, Stamps
from sparkbeam.aggregate.columnar_sessions import SessionColumns
from sparkbeam.aggregate.session_runs import Runs
from sparkbeam.columns.python_types import INT
from sparkbeam.columns.vectors import Micros, Positions
from sparkbeam.windows.vectorized_form import Numbers
from sparkbeam.wire.rounding import coded_column, floored_column
from sparkbeam.worker.object_sizes import size_of
from sparkbeam.worker.value_columns import Column, column_of

Spans = tuple[Sequence[int] | Micros, Sequence[int] | Micros]
"""The starts and the ends of windows, in microseconds."""

Named = tuple[list[Hashable] | Column, Aggregates]
"""Names of keys by their numbers, or keys that stand for themselves, and sessions of them."""

_AT_ONCE = 1000
"""Number of keys whose sessions leave together, if they have to be gathered."""

_Waiting = tuple[Micros, Micros, Micros, Micros, Numbers]
"""Keys, starts, ends, stamps and numbers of elements."""


def joined_parts(*columns: Sequence[npt.NDArray[Any]]) -> Iterator[npt.NDArray[Any]]:
    """Yield the concatenated parts of each column; columns of the same parts share an array."""
    made: dict[tuple[int, ...], npt.NDArray[Any]] = {}
    for parts in columns:
        same = tuple(map(id, parts))
        if same not in made:
            made[same] = parts[0] if len(parts) == 1 else np.concatenate(parts)
        yield made[same]


class SessionTable(Protocol):
    """Elements by the names of their keys, merged into sessions.

    Attributes:
        keeps_values: True if values wait here, so that they must not change.
    """

    keeps_values: bool

    def __len__(self) -> int:
        """Return the number of sessions whose elements no longer wait."""

    def add(
        self,
        names: Sequence[Hashable],
        spans: Spans,
        stamps: Sequence[int],
        values: Sequence[Any],
    ) -> None:
        """Add elements, each in one window.

        Args:
            names: of their keys.
            spans: the starts and the ends of their windows.
            stamps: their timestamps.
            values: their values.
        """

    def settle(self) -> None:
        """Merge the waiting elements into sessions."""

    def size(self) -> int:
        """Return the approximate size of the accumulators in bytes."""

    def take(self) -> Iterator[Named]:
        """Yield all sessions with the names of the keys; the table is empty afterwards."""


class ReducedTable:
    """Table that reduces elements one by one.

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
        """Do nothing, as no element waits."""

    def size(self) -> int:
        finish = self._aggregator.finish
        return size_of([s.accumulator for b in self._buffers.values() for s in finish(b)])

    def take(self) -> Iterator[Named]:
        buffers, self._buffers, self._count = iter(self._buffers.items()), {}, 0
        while some := list(islice(buffers, _AT_ONCE)):
            found = [list(self._aggregator.finish(buffer)) for _, buffer in some]
            yield [name for name, _ in some], _aggregates(found)


class NumberTable:
    """Sessions of keys that are whole numbers, in columns: a key stands for itself.

    Args:
        make: makes columns of elements.
    """

    def __init__(self, make: SessionColumns) -> None:
        self._make = make
        self._clear()

    def _clear(self) -> None:
        self._runs = Runs(self._make)
        self._waiting: list[_Waiting] = []

    def __len__(self) -> int:
        return len(self._runs)

    def add(
        self, keys: Micros, starts: Micros, ends: Micros, stamps: Micros, numbers: Numbers
    ) -> None:
        """Add elements.

        Args:
            keys: of each.
            starts: of their windows.
            ends: the same.
            stamps: their timestamps.
            numbers: the values, in the vectorized form.
        """
        self._waiting.append((keys, starts, ends, stamps, numbers))

    def settle(self) -> None:
        """Merge the waiting elements into sessions."""
        waiting, self._waiting = self._waiting, []
        of_kinds = defaultdict(list)
        for some in waiting:
            of_kinds[some[-1].dtype].append(some)
        for alike in of_kinds.values():
            keys, starts, ends, stamps, numbers = joined_parts(*zip(*alike, strict=True))
            self.reduce(keys, (starts, ends), stamps, numbers)

    def reduce(
        self, keys: Micros, spans: Spans, stamps: Sequence[int] | Micros, values: Any
    ) -> None:
        """Merge elements into sessions; see :meth:`SessionColumns.reduce`."""
        starts, ends = map(floored_column, spans)
        # Where times are after zero, both ways to round are one.
        are_starts = stamps is spans[0] and starts.min() >= 0
        times = starts if are_starts else coded_column(stamps)
        self._runs.add(self._make.reduce(keys, starts, ends, times, values))

    def size(self) -> int:
        """Return the approximate size of the accumulators in bytes."""
        totals = [columns.totals for columns in self._runs]
        return sum(size_of(some.tolist()) for some in totals if some.dtype == object)

    def take(self) -> Aggregates | None:
        """Return all sessions by key, and empty the table; None if there are none."""
        self.settle()
        found = self._runs.aggregates()
        self._clear()
        return found


class ColumnarTable:
    """Table whose elements wait, and are merged into sessions all at once.

    Args:
        combine_fn: of the values.
        stamps: of the timestamps.

    Attributes:
        of_numbers: the sessions of keys in columns that are whole numbers.
    """

    def __init__(self, combine_fn: beam.CombineFn, stamps: Stamps) -> None:
        make = SessionColumns(combine_fn, stamps)
        self.keeps_values = make.form is None or make.form.takes_values
        self.of_numbers = NumberTable(make)
        self._by_number = NumberTable(make)
        self._numbers: dict[Hashable, int] = {}
        self._wait()

    def _wait(self) -> None:
        self._keys: list[int] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._stamps: list[int] = []
        self._values: list[Any] = []

    def __len__(self) -> int:
        return len(self._by_number) + len(self.of_numbers)

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
        """Add elements in columns.

        Args:
            names: the names of the keys.
            places: that of each element's key among them.
            starts: of their windows.
            ends: the same.
            stamps: their timestamps.
            numbers: the values, in the vectorized form.
        """
        known = self._numbers
        keys = np.array([known.setdefault(name, len(known)) for name in names], np.int64)
        self._by_number.add(keys[places], starts, ends, stamps, numbers)

    def settle(self) -> None:
        if self._keys:
            values = self._values if self.keeps_values else self._keys
            keys = np.array(self._keys, np.int64)
            self._by_number.reduce(keys, (self._starts, self._ends), self._stamps, values)
            self._wait()
        self._by_number.settle()
        self.of_numbers.settle()

    def size(self) -> int:
        return self._by_number.size() + self.of_numbers.size()

    def take(self) -> Iterator[Named]:
        self.settle()
        of_numbers, by_number = self.of_numbers.take(), self._by_number.take()
        names, self._numbers = list(self._numbers), {}
        if of_numbers is not None:
            firsts = of_numbers.firsts()
            places = np.repeat(np.arange(len(firsts)), np.diff(firsts, append=len(of_numbers)))
            keys = column_of(pa.array(of_numbers.keys[firsts]), INT)
            yield keys, of_numbers.with_keys(places)
        if by_number is not None:
            yield names, by_number


def _aggregates(found: list[list[Session]]) -> Aggregates:
    """Return the sessions of keys, which are numbered in their order."""
    keys = np.repeat(np.arange(len(found)), list(map(len, found)))
    *times, accumulators = zip(*chain.from_iterable(found), strict=True)
    starts, ends, stamps = (np.array(column, np.int64) for column in times)
    return Aggregates(keys, starts, ends, stamps, objects(accumulators))

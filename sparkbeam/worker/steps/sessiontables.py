"""The sessions of many keys while a task gathers them."""

from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol

import apache_beam as beam
import numpy as np

from sparkbeam.windows.aggregator import Aggregator, Session, Stamps
from sparkbeam.windows.columnar import Runs, SessionColumns
from sparkbeam.wire.rounding import coded_column, coded_micros, coded_span, floored_column
from sparkbeam.worker.sizes import size_of

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
        self, names: Sequence[Hashable], windows: Any, stamps: list[int], values: Sequence[Any]
    ) -> None:
        """Takes in elements.

        Args:
            names: of their keys.
            windows: those that each of them is in.
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
        self, names: Sequence[Hashable], windows: Any, stamps: list[int], values: Sequence[Any]
    ) -> None:
        reduce, buffers = self._aggregator.reduce, self._buffers
        for window in windows:
            start, end = coded_span(window)
            for name, stamp, value in zip(names, stamps, values, strict=True):
                buffer = buffers.get(name)
                if buffer is None:
                    buffer = self._aggregator.zero()
                before = len(buffer)
                buffers[name] = buffer = reduce(buffer, start, end, coded_micros(stamp), value)
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

    def __len__(self) -> int:
        return len(self._runs)

    def add(
        self, names: Sequence[Hashable], windows: Any, stamps: list[int], values: Sequence[Any]
    ) -> None:
        numbers = self._numbers
        keys = [numbers.setdefault(name, len(numbers)) for name in names]
        for window in windows:
            self._keys += keys
            self._starts += [window.start.micros] * len(names)
            self._ends += [window.end.micros] * len(names)
            self._stamps += stamps
            if self.keeps_values:
                self._values += values

    def settle(self) -> None:
        if not self._keys:
            return
        found = self._make.reduce(
            np.array(self._keys, np.int64),
            floored_column(self._starts),
            floored_column(self._ends),
            coded_column(self._stamps),
            self._values if self.keeps_values else self._keys,
        )
        self._wait()
        self._runs.add(found)

    def size(self) -> int:
        totals = [columns.totals for columns in self._runs]
        return sum(size_of(some.tolist()) for some in totals if some.dtype == object)

    def take(self) -> Iterator[tuple[Hashable, list[Session]]]:
        self.settle()
        found, names = self._runs.sessions(), list(self._numbers)
        self._clear()
        for number, sessions in groupby(found, _NUMBER):
            yield names[number], [session for _, session in sessions]

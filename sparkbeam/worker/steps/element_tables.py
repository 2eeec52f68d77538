"""Tables of elements, aggregated one by one by key and window before the shuffle."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import BoundedWindow

from sparkbeam.aggregate.aggregates import Aggregates, objects
from sparkbeam.aggregate.aggregator import Aggregator, Session, Stamps
from sparkbeam.aggregate.columnar_sessions import SessionColumns
from sparkbeam.aggregate.session_runs import Runs
from sparkbeam.columns.vectors import Micros
from sparkbeam.wire.rounding import coded_column, floored_column
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.object_sizes import size_of
from sparkbeam.worker.steps.column_tables import add_sessions
from sparkbeam.worker.steps.combine_columns import Partials, ready_sessions
from sparkbeam.worker.steps.combine_windows import template_of

Spans = tuple[Sequence[int] | Micros, Sequence[int] | Micros]
"""The starts and the ends of windows, in microseconds."""

Names = Sequence[Hashable]
"""Names of keys."""

_AT_ONCE = 1000
"""Number of keys whose sessions are emitted together."""


class _Accumulators:
    """Accumulators of one window.

    Attributes:
        accumulators: those of each key.
        stamps: the combined timestamps in microseconds, if readers need them.
        gathered: the values of each key that wait, in order.
        count: the number of all elements.
    """

    __slots__ = ("accumulators", "count", "gathered", "stamps")

    def __init__(self) -> None:
        self.accumulators: dict[Hashable, Any] = {}
        self.stamps: dict[Hashable, int] = {}
        self.gathered: dict[Hashable, list[Any]] = {}
        self.count = 0


class WindowElements:
    """Elements in windows that do not merge here.

    Args:
        stamps: combines their timestamps; None if no reader needs these.
    """

    def __init__(
        self,
        combine_fn: beam.CombineFn,
        stamps: Stamps | None,
        windowing: Windowing,
        key_of: Callable[[Any], Any],
    ) -> None:
        self._combine_fn = combine_fn
        self._stamps = stamps
        self._windowing = windowing
        self._key_of = key_of
        self._tables: defaultdict[BoundedWindow, _Accumulators] = defaultdict(_Accumulators)
        self._waiting: list[_Accumulators] = []
        self._count = 0

    def __len__(self) -> int:
        """Return the number of accumulators, without the elements that wait."""
        return self._count

    def add(
        self,
        window: BoundedWindow,
        names: Names,
        values: Sequence[Any],
        stamps: Sequence[int] | None,
        others: int,
    ) -> None:
        """Add elements of a window.

        Args:
            stamps: their timestamps, if readers need these.
            others: the number of further elements, which do not change the result.
        """
        table = self._tables[window]
        table.count += len(values) + others
        gathered = table.gathered
        if not gathered:
            self._waiting.append(table)
        for name, value in zip(names, values, strict=True):
            run = gathered.get(name)
            if run is None:
                gathered[name] = [value]
            else:
                run.append(value)
        if self._stamps is not None:
            assert stamps is not None
            known, combine = table.stamps, self._stamps
            for name, micros in zip(names, stamps, strict=True):
                known[name] = combine(known.get(name, micros), micros)

    def flush_pending(self) -> None:
        """Aggregate the waiting elements."""
        create, add_inputs = self._combine_fn.create_accumulator, self._combine_fn.add_inputs
        for table in self._waiting:
            accumulators = table.accumulators
            before = len(accumulators)
            for name, values in table.gathered.items():
                if name not in accumulators:
                    accumulators[name] = create()
                accumulators[name] = add_inputs(accumulators[name], values)
            table.gathered.clear()
            self._count += len(accumulators) - before
        self._waiting.clear()

    def size(self) -> int:
        """Return the approximate size of the accumulators in bytes."""
        return size_of([table.accumulators for table in self._tables.values()])

    def take(self) -> Iterator[Partials]:
        """Yield all accumulators and forget them; no element waits."""
        tables = list(self._tables.items())
        self._tables.clear()
        self._count = 0
        for window, table in tables:
            keys = map(self._key_of, table.accumulators)
            pairs = list(zip(keys, table.accumulators.values(), strict=True))
            stamps: list[int] | None = None
            if self._stamps is not None:
                stamps = list(map(table.stamps.__getitem__, table.accumulators))
            yield Partials(Block(template_of(window, self._windowing), pairs, stamps), table.count)


class ReducedSessions:
    """Sessions into which elements are reduced one by one.

    Args:
        aggregator: has a buffer for each key.
    """

    keeps_values = False

    def __init__(self, aggregator: Aggregator[Any], key_of: Callable[[Any], Any]) -> None:
        self._aggregator = aggregator
        self._key_of = key_of
        self._buffers: dict[Hashable, Any] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, names: Names, spans: Spans, stamps: Sequence[int], values: Sequence[Any]) -> None:
        """Add elements, each in one window."""
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

    def flush_pending(self) -> None:
        """Do nothing, as no element waits."""

    def size(self) -> int:
        finish = self._aggregator.finish
        return size_of([s.accumulator for b in self._buffers.values() for s in finish(b)])

    def take(self) -> Iterator[Partials]:
        buffers, self._buffers, self._count = iter(self._buffers.items()), {}, 0
        while some := list(islice(buffers, _AT_ONCE)):
            found = [list(self._aggregator.finish(buffer)) for _, buffer in some]
            yield from ready_sessions([self._key_of(name) for name, _ in some], _aggregates(found))


class ColumnarSessions:
    """Sessions into which elements are merged many at once."""

    def __init__(self, make: SessionColumns, key_of: Callable[[Any], Any]) -> None:
        self._make = make
        self._key_of = key_of
        self.keeps_values = make.form is None or make.form.takes_values
        self._clear()

    def _clear(self) -> None:
        self._runs = Runs(self._make)
        self._numbers: dict[Hashable, int] = {}
        self._wait()

    def _wait(self) -> None:
        self._keys: list[int] = []
        self._spans: tuple[list[int], list[int]] = ([], [])
        self._stamps: list[int] = []
        self._values: list[Any] = []

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, names: Names, spans: Spans, stamps: Sequence[int], values: Sequence[Any]) -> None:
        numbers = self._numbers
        self._keys += [numbers.setdefault(name, len(numbers)) for name in names]
        for waiting, times in zip(self._spans, spans, strict=True):
            waiting += times
        self._stamps += stamps
        if self.keeps_values:
            self._values += values

    def flush_pending(self) -> None:
        if self._keys:
            values = self._values if self.keeps_values else self._keys
            keys = np.array(self._keys, np.int64)
            add_sessions(self._runs, self._make, keys, self._spans, self._stamps, values)
            self._wait()

    def size(self) -> int:
        totals = [columns.totals for columns in self._runs]
        return sum(size_of(some.tolist()) for some in totals if some.dtype == object)

    def take(self) -> Iterator[Partials]:
        found, names = self._runs.aggregates(), self._numbers
        self._clear()
        if found is not None:
            yield from ready_sessions(list(map(self._key_of, names)), found)


SessionElements = ReducedSessions | ColumnarSessions
"""Elements that are merged into sessions.

If it ``keeps_values``, these wait until they are aggregated, so that they must not change.
"""

ElementTable = WindowElements | SessionElements
"""Elements by the names of their keys."""


def _aggregates(found: list[list[Session]]) -> Aggregates:
    """Return the sessions of keys, which are numbered in their order."""
    keys = np.repeat(np.arange(len(found)), list(map(len, found)))
    *times, accumulators = zip(*chain.from_iterable(found), strict=True)
    starts, ends, stamps = (np.array(column, np.int64) for column in times)
    return Aggregates(keys, starts, ends, stamps, objects(accumulators))

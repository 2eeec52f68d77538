"""Tables of pairs in columns, aggregated by key and window before the shuffle."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkbeam.accumulators.pair_groups import groups_of
from sparkbeam.aggregate.aggregates import Aggregates
from sparkbeam.aggregate.columnar_sessions import SessionColumns, WindowColumns
from sparkbeam.aggregate.session_runs import Runs
from sparkbeam.columns.python_types import Shape
from sparkbeam.columns.vectors import Micros, Positions
from sparkbeam.wire.rounding import coded_column, floored_column
from sparkbeam.worker.keyed_aggregates import KeyedAggregates
from sparkbeam.worker.refusals import count_refused
from sparkbeam.worker.row_formats.pairs import are_numbers, distinct
from sparkbeam.worker.steps.combine_windows import NumberedWindows
from sparkbeam.worker.value_columns import Column, column_of

MAX_KEYS = 100_000
"""Maximum number of accumulators in a table of elements or sessions before they are emitted."""

MAX_BUFFERED = 200_000
"""Number of elements, or of pairs in sessions, that wait to be aggregated together."""

MAX_BUFFERED_BYTES = 32 << 20
"""Size of waiting values from which they are aggregated."""

MAX_BYTES = 64 << 20
"""Size of aggregates from which they are emitted."""

_MOST_WAITING = 500_000
_BATCH_BYTES = 1000
"""Size of the objects of a batch of pairs."""

_FEW = 0.2
"""Fraction of new pairs in known windows below which the earlier aggregates are emitted first."""

_Pairs = tuple[pa.Array, tuple[npt.NDArray[Any], ...]]
"""The key of each pair, and the columns of a table."""


class ColumnTable(ABC):
    """Pairs of one kind, which wait until there are many, and their aggregates."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._waiting: list[_Pairs] = []
        self._rows = self._bytes = 0

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of aggregates."""

    @property
    @abstractmethod
    def is_large(self) -> bool:
        """True if the aggregates should be emitted."""

    @property
    def are_many(self) -> bool:
        """True if there are enough waiting pairs to aggregate."""
        return self._rows >= self._most_waiting() or self._bytes >= MAX_BUFFERED_BYTES

    def add(self, keys: pa.Array, *columns: npt.NDArray[Any]) -> None:
        """Add pairs.

        Args:
            keys: of each.
        """
        self._waiting.append((keys, columns))
        self._rows += len(keys)
        self._bytes += _size(keys, columns) + _BATCH_BYTES

    def flush_pending(self) -> None:
        """Aggregate the waiting pairs."""
        waiting, self._waiting = self._waiting, []
        self._rows = self._bytes = 0
        if waiting:
            self._aggregate(waiting)

    @abstractmethod
    def take(self) -> Iterator[tuple[NumberedWindows | None, KeyedAggregates]]:
        """Yield the aggregates and forget them.

        With each are the windows by whose numbers its rows differ; None if each row has the window
        from its start to its end.
        """

    @abstractmethod
    def _aggregate(self, waiting: list[_Pairs]) -> None: ...

    @abstractmethod
    def _most_waiting(self) -> int: ...

    def _distinct(self, keys: pa.Array) -> tuple[Column, Positions]:
        """Return distinct keys, and the position of each one's; rarely a key comes twice."""
        found = distinct(keys, self._shape)
        return found or (column_of(keys, self._shape), np.arange(len(keys)))


class WindowTable(ColumnTable):
    """Aggregates by key and numbered window.

    Its columns are the numbers of windows, timestamps, numbers of the vectorized form, and counts
    of elements.

    Args:
        make: makes and merges columns of windows; the CombineFn has a vectorized form.
    """

    def __init__(self, make: WindowColumns, windows: NumberedWindows, shape: Shape) -> None:
        super().__init__(shape)
        assert make.form is not None
        self._make, self._form = make, make.form
        self._windows = windows
        self._past: list[tuple[NumberedWindows, KeyedAggregates]] = []
        self._settled: KeyedAggregates | None = None
        self._gathered: _Pairs | None = None

    def __len__(self) -> int:
        return 0 if self._settled is None else len(self._settled)

    @property
    def is_large(self) -> bool:
        is_large = self._gathered is not None and _size(*self._gathered) >= MAX_BYTES
        return is_large or bool(self._past)

    def take(self) -> Iterator[tuple[NumberedWindows, KeyedAggregates]]:
        self._close()
        past, self._past = self._past, []
        yield from past

    def _close(self) -> None:
        """Add no more pairs to the aggregates."""
        if self._settled is not None:
            self._past.append((self._windows, self._settled))
        self._settled = self._gathered = None

    def _most_waiting(self) -> int:
        return max(_MOST_WAITING, len(self))

    def _aggregate(self, waiting: list[_Pairs]) -> None:
        keys, (windows, stamps, numbers, counts) = joined([*self._before(waiting), *waiting])
        found, places = self._distinct(keys)
        groups = groups_of(places, len(found), windows)
        totals = groups.added(self._form, numbers)
        if totals is None:
            self._aggregate_objects(waiting)
            return
        numbers_of, times = groups.second, groups.combined(self._make.stamps, stamps)
        counts = groups.combined(np.add, counts)
        rows = Aggregates(groups.first, *self._windows.spans(numbers_of), times, totals, counts)
        self._settled = KeyedAggregates(found, rows)
        of_each = found.array.take(pa.array(groups.first))
        self._gathered = of_each, (numbers_of, times, totals, counts)

    def _before(self, waiting: list[_Pairs]) -> list[_Pairs]:
        """Return the aggregates so far; none if the new pairs belong to other windows."""
        if self._gathered is None:
            return []
        if _part_in([columns[0] for _, columns in waiting], self._gathered[1][0]) >= _FEW:
            return [self._gathered]
        self._close()
        return []

    def _aggregate_objects(self, waiting: list[_Pairs]) -> None:
        """Let the CombineFn take in the values, as their numbers do not add up exactly."""
        count_refused(f"{self._form.name} is not exact over columns")
        self._close()
        keys, (numbers_of, stamps, numbers, _) = joined(waiting)
        rows, numbers_of, windows = self._windows.whole(numbers_of)
        found, places = self._distinct(keys)
        spans = windows.spans(numbers_of)
        each = self._make.reduce(places[rows], *spans, stamps[rows], numbers[rows])
        self._past.append((windows, KeyedAggregates(found, each)))


class SessionTable(ColumnTable):
    """Sessions by key.

    Its columns are the starts and ends of elements' windows, their timestamps, and numbers of the
    vectorized form.
    """

    def __init__(self, make: SessionColumns, shape: Shape) -> None:
        super().__init__(shape)
        self._make = make
        self._clear()

    def _clear(self) -> None:
        self._runs = Runs(self._make)
        self._known: pa.Array | None = None

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def is_large(self) -> bool:
        return len(self) > MAX_KEYS

    def take(self) -> Iterator[tuple[None, KeyedAggregates]]:
        found, known = self._runs.aggregates(), self._known
        self._clear()
        if found is None:
            return
        if known is None:
            firsts = found.firsts()
            places = np.repeat(np.arange(len(firsts)), np.diff(firsts, append=len(found)))
            known, found = pa.array(found.keys[firsts]), found.with_keys(places)
        yield None, KeyedAggregates(column_of(known, self._shape), found)

    def _most_waiting(self) -> int:
        return MAX_BUFFERED

    def _aggregate(self, waiting: list[_Pairs]) -> None:
        keys, (starts, ends, stamps, numbers) = joined(waiting)
        add_sessions(self._runs, self._make, self._numbered(keys), (starts, ends), stamps, numbers)

    def _numbered(self, keys: pa.Array) -> Micros:
        """Return the number of each key: a whole number stands for itself."""
        if are_numbers(keys, self._shape):
            numbers: Micros = keys.cast(pa.int64()).to_numpy()
            return numbers
        known = keys.slice(0, 0) if self._known is None else self._known
        found, places = self._distinct(pa.concat_arrays([known, keys]))
        numbers = np.full(len(found), -1)
        numbers[places[: len(known)]] = np.arange(len(known))
        is_new = numbers < 0
        numbers[is_new] = len(known) + np.arange(np.count_nonzero(is_new))
        self._known = pa.concat_arrays([known, found.array.filter(pa.array(is_new))])
        return numbers[places[len(known) :]]


def add_sessions(
    runs: Runs,
    make: SessionColumns,
    keys: Micros,
    spans: tuple[Sequence[int] | Micros, Sequence[int] | Micros],
    stamps: Sequence[int] | Micros,
    values: Any,
) -> None:
    """Merge elements into runs of sessions; see :meth:`SessionColumns.reduce`."""
    starts, ends = map(floored_column, spans)
    # Where times are after zero, both ways to round are one.
    are_starts = stamps is spans[0] and starts.min() >= 0
    times = starts if are_starts else coded_column(stamps)
    runs.add(make.reduce(keys, starts, ends, times, values))


def joined(parts: list[_Pairs]) -> tuple[pa.Array, list[npt.NDArray[Any]]]:
    """Return the concatenated pairs; columns of the same arrays share the result."""
    keys, columns = zip(*parts, strict=True)
    made: dict[tuple[int, ...], npt.NDArray[Any]] = {}
    every = []
    for some in zip(*columns, strict=True):
        same = tuple(map(id, some))
        if same not in made:
            made[same] = some[0] if len(some) == 1 else np.concatenate(some)
        every.append(made[same])
    return pa.concat_arrays(keys), every


def _size(keys: pa.Array, columns: tuple[npt.NDArray[Any], ...]) -> int:
    return int(keys.nbytes) + sum(column.nbytes for column in columns)


def _part_in(parts: list[Micros], known: Micros) -> float:
    """Return the fraction of the numbers that is known; 1 if it takes long to determine."""
    first = int(known.min())
    span = int(known.max()) - first + 1
    if span > _MOST_WAITING:
        return 1.0
    is_known = np.zeros(span, np.bool_)
    is_known[known - first] = True
    places = np.concatenate(parts) - first
    inside = places[(places >= 0) & (places < span)]
    return np.count_nonzero(is_known[inside]) / len(places)

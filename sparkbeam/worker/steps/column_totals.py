"""Partial aggregates of pairs in columns, before the shuffle."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sparkbeam.aggregate.aggregates import Aggregates
from sparkbeam.columns.python_types import Shape
from sparkbeam.columns.vectors import Micros
from sparkbeam.windows.pair_groups import groups_of
from sparkbeam.windows.vectorized_form import Form, Numbers
from sparkbeam.worker.keyed_aggregates import KeyedAggregates
from sparkbeam.worker.row_formats.pairs import distinct

_MOST_WAITING = 500_000
_MOST_WAITING_BYTES = 32 << 20
_MOST_BYTES = 64 << 20
_FEW = 0.2
"""Fraction of new pairs in known slices below which the earlier aggregates are emitted first."""


@dataclass(frozen=True)
class Gathered:
    """Pairs, or the aggregates of several pairs.

    Attributes:
        keys: of each.
        slices: the number of each time slice, or of the one with which the window begins.
        stamps: of each, in microseconds.
        numbers: the numbers of the vectorized form.
        counts: the number of elements of each.
    """

    keys: pa.Array
    slices: Micros
    stamps: Micros
    numbers: Numbers
    counts: Micros

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return int(self.keys.nbytes) + sum(column.nbytes for column in self._columns())

    def _columns(self) -> tuple[Any, ...]:
        return self.slices, self.stamps, self.numbers, self.counts

    @staticmethod
    def joined(parts: "list[Gathered]") -> "Gathered":
        """Return the concatenation of several."""
        keys = pa.concat_arrays([part.keys for part in parts])
        return Gathered(
            keys, *map(np.concatenate, zip(*(p._columns() for p in parts), strict=True))
        )


class ColumnTotals:
    """Partial aggregates of pairs of one kind, by key and time slice.

    Pairs wait until there are many. Then all pairs of a key and slice are aggregated at once.

    Args:
        form: of the combine.
        stamps: combines their timestamps.
        shape: of the keys.
        spans: the starts and ends of slices, or of the windows that begin with them.
    """

    def __init__(
        self,
        form: Form,
        stamps: np.ufunc,
        shape: Shape,
        spans: Callable[[Micros], tuple[Micros, Micros]],
    ) -> None:
        self._form = form
        self._stamps = stamps
        self._shape = shape
        self._spans = spans
        self._past: list[KeyedAggregates] = []
        self._settled: KeyedAggregates | None = None
        self._gathered: Gathered | None = None
        self._waiting: list[Gathered] = []
        self._rows = self._bytes = 0

    @property
    def are_many(self) -> bool:
        """True if there are enough waiting pairs to aggregate."""
        settled = 0 if self._settled is None else len(self._settled)
        return self._rows >= max(_MOST_WAITING, settled) or self._bytes >= _MOST_WAITING_BYTES

    @property
    def is_large(self) -> bool:
        """True if the aggregates take much memory, or hardly any new value is added to them."""
        is_large = self._gathered is not None and self._gathered.nbytes >= _MOST_BYTES
        return is_large or bool(self._past)

    def add(self, some: Gathered) -> None:
        """Add pairs."""
        self._waiting.append(some)
        self._rows += len(some.slices)
        self._bytes += some.nbytes

    def settle(self) -> bool:
        """Aggregate the waiting pairs; return False, with all unchanged, if that is not exact."""
        if not self._waiting:
            return True
        together = Gathered.joined([*self._before(), *self._waiting])
        found = distinct(together.keys, self._shape)
        if found is None:
            return False
        keys, of_rows = found
        groups = groups_of(of_rows, len(keys), together.slices)
        totals = groups.added(self._form, together.numbers)
        if totals is None:
            return False
        places, slices = groups.first, groups.second
        stamps = groups.combined(self._stamps, together.stamps)
        counts = groups.combined(np.add, together.counts)
        rows = Aggregates(places, *self._spans(slices), stamps, totals, counts)
        self._settled = KeyedAggregates(keys, rows)
        of_each = keys.array.take(pa.array(places))
        self._gathered = Gathered(of_each, slices, stamps, totals, counts)
        self.waiting()
        return True

    def _before(self) -> list[Gathered]:
        """Return the aggregates so far; none if the new pairs belong to other slices."""
        before = self._gathered
        if before is None:
            return []
        if _part_in([some.slices for some in self._waiting], before.slices) >= _FEW:
            return [before]
        self._past += self.take()
        return []

    def take(self) -> list[KeyedAggregates]:
        """Return the aggregates and forget them."""
        found = self._past if self._settled is None else [*self._past, self._settled]
        self._past, self._settled, self._gathered = [], None, None
        return found

    def waiting(self) -> list[Gathered]:
        """Return the waiting pairs in order of arrival and forget them."""
        waiting, self._waiting = self._waiting, []
        self._rows = self._bytes = 0
        return waiting


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

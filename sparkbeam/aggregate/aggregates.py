"""Partial results by key and window, in columns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkbeam.columns.order import firsts_of
from sparkbeam.columns.vectors import Micros, Positions
from sparkbeam.windows.vectorized_form import Numbers


@dataclass(frozen=True)
class Aggregates:
    """Partial results, each of a key and a window, or of a slice of windows.

    Attributes:
        keys: the number of each one's key.
        starts, ends: of the windows, in microseconds.
        stamps: the combined timestamps of their elements, likewise.
        totals: numbers of a vectorised form, or accumulators in an array of objects.
        counts: how many elements each is of; None where nobody asks.
    """

    keys: Micros
    starts: Micros
    ends: Micros
    stamps: Micros
    totals: Numbers
    counts: Micros | None = None

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def are_numbers(self) -> bool:
        """Whether the accumulators are numbers of a vectorised form."""
        return bool(self.totals.dtype != object)

    def part(self, rows: slice | Positions | npt.NDArray[np.bool_]) -> "Aggregates":
        """Some of the rows."""
        times = self.starts[rows], self.ends[rows], self.stamps[rows]
        counts = None if self.counts is None else self.counts[rows]
        return Aggregates(self.keys[rows], *times, self.totals[rows], counts)

    def place_of(self, others: "Aggregates") -> int:
        """How many of the sessions are before all of others, by key and time, and touch none."""
        low, high = self._range_of(others.keys[0])
        return int(low + np.searchsorted(self.ends[low:high], others.starts[0], "left"))

    def place_before(self, key: int, start: int) -> int:
        """How many of the sessions begin before a time, by key."""
        low, high = self._range_of(key)
        return int(low + np.searchsorted(self.starts[low:high], start, "left"))

    def firsts(self) -> Positions:
        """Where those of each key begin."""
        return firsts_of(self.keys)

    def count_reached(self, before: "Aggregates") -> int:
        """How many of the sessions, of which none is before all of others, these may touch."""
        low, high = self._range_of(before.keys[-1])
        return int(low + np.searchsorted(self.starts[low:high], before.ends[-1], "right"))

    def _range_of(self, key: int) -> tuple[int, int]:
        """Where the sessions of a key begin and end."""
        low, high = (np.searchsorted(self.keys, key, side) for side in ("left", "right"))
        return int(low), int(high)

    def with_keys(self, keys: Micros) -> "Aggregates":
        """The same with other numbers for the keys."""
        return replace(self, keys=keys)


def objects(values: Sequence[Any]) -> Numbers:
    """An array of objects, also where they are sequences."""
    return np.fromiter(values, object, len(values))

"""Partial results by key and window, in columns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sparkbeam.accumulators.vectorized_accumulator import Numbers
from sparkbeam.columns.order import firsts_of
from sparkbeam.columns.vectors import Micros, Positions


@dataclass(frozen=True)
class Aggregates:
    """Partial results, each of a key and a window, or of a slice of windows.

    Attributes:
        keys: the number of each one's key.
        starts, ends: of the windows, in microseconds.
        stamps: the combined timestamps of their elements, likewise.
        totals: numbers of a vectorized form, or accumulators in an array of objects.
        counts: the number of elements of each; None if not needed.
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
        """True if the accumulators are numbers of a vectorized form."""
        return bool(self.totals.dtype != object)

    def part(self, rows: slice | Positions | npt.NDArray[np.bool_]) -> "Aggregates":
        """Return some of the rows."""
        times = self.starts[rows], self.ends[rows], self.stamps[rows]
        counts = None if self.counts is None else self.counts[rows]
        return Aggregates(self.keys[rows], *times, self.totals[rows], counts)

    def place_of(
        self, key: int, edges: Micros, time: int, side: Literal["left", "right"] = "left"
    ) -> int:
        """Return the number of rows before a time of a key; rows are by key and time.

        Args:
            edges: the starts or the ends of the rows.
            side: "right" includes the rows at this time.
        """
        low, high = np.searchsorted(self.keys, key), np.searchsorted(self.keys, key, "right")
        return int(low + np.searchsorted(edges[low:high], time, side))

    def firsts(self) -> Positions:
        """Return the position of the first session of each key."""
        return firsts_of(self.keys)

    def with_keys(self, keys: Micros) -> "Aggregates":
        """Return the same with other numbers for the keys."""
        return replace(self, keys=keys)


def objects(values: Sequence[Any]) -> Numbers:
    """Return an array of objects, even if they are sequences."""
    return np.fromiter(values, object, len(values))

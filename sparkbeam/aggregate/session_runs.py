"""Columns of sessions in parts, which are merged seldom."""

from collections.abc import Iterator

from sparkbeam.aggregate.aggregates import Aggregates
from sparkbeam.aggregate.columnar_sessions import SessionColumns

_MOST_APART = 100_000
"""Number of sessions from which parts are merged."""


class Runs:
    """Columns of the same keys, each sorted by key and start."""

    def __init__(self, make: SessionColumns) -> None:
        self._make = make
        self._parts: list[Aggregates] = []

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __iter__(self) -> Iterator[Aggregates]:
        return iter(self._parts)

    def add(self, columns: Aggregates) -> None:
        """Take in further sessions."""
        self._parts.append(columns)
        if len(self) > _MOST_APART:
            self.aggregates()

    def aggregates(self) -> Aggregates | None:
        """Return all sessions, by key and start; None if there are none."""
        if len(self._parts) > 1:
            self._parts = [self._make.merge(*self._parts)]
        return self._parts[0] if self._parts else None

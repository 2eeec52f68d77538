"""Search for the closest element in time on a sorted side."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

NEVER = (1 << 63) - 1
"""Sentinel in microseconds, after all timestamps."""


class Group(NamedTuple):
    """Right elements with equal timestamps.

    Attributes:
        time: in microseconds.
    """

    time: int
    first: bytes
    last: bytes


class Closest(NamedTuple):
    """Selection of a match.

    Attributes:
        direction, tolerance, exact: as in :class:`AsOfJoin`; the tolerance in microseconds.
    """

    direction: str
    tolerance: int | None
    exact: bool

    def match(
        self, time: int, below: Group | None, at: Group | None, above: Group | None
    ) -> tuple[bytes | None, int]:
        """Return the match of a left element, and the time at which it is final.

        Args:
            time: of the element; all times are in microseconds.
            below: the closest known right elements before that time.
            above: the closest known ones after it.

        Returns:
            The match among the known elements, or None; and the time before which all right
            elements must be known for it to be final, :data:`NEVER` for all.
        """
        if at is not None and self.exact:
            return (at.first if self.direction == "forward" else at.last), time + 1
        if below is not None and not self._is_close(time - below.time):
            below = None
        if above is not None and not self._is_close(above.time - time):
            above = None
        if self.direction == "backward":
            return (None if below is None else below.last), time + 1
        final = NEVER
        if self.tolerance is not None:
            final = min(final, time + self.tolerance + 1)
        if above is not None:
            final = min(final, above.time + 1)
        if self.direction == "nearest" and below is not None:
            distance = time - below.time
            final = min(final, time + distance)
            if above is None or distance <= above.time - time:
                return below.last, final
        return (None if above is None else above.first), final

    def _is_close(self, distance: int) -> bool:
        return self.tolerance is None or distance <= self.tolerance


class MatchCursor:
    """Cursor over the right side, moved along with the left one.

    Args:
        entries: timestamps and encoded values of the right side, by timestamp.
    """

    def __init__(self, entries: Iterable[tuple[int, bytes]]) -> None:
        self._groups = _groups(entries)
        self._ahead: deque[Group] = deque()
        self._below: Group | None = None

    def around(self, time: int) -> tuple[Group | None, Group | None, Group | None]:
        """Return the groups before, at and after a time; times must not decrease between calls."""
        while (following := self._peek(0)) is not None and following.time < time:
            self._below = self._ahead.popleft()
        if following is None or following.time > time:
            return self._below, None, following
        return self._below, following, self._peek(1)

    def _peek(self, place: int) -> Group | None:
        while len(self._ahead) <= place:
            found = next(self._groups, None)
            if found is None:
                return None
            self._ahead.append(found)
        return self._ahead[place]


def _groups(entries: Iterable[tuple[int, bytes]]) -> Iterator[Group]:
    for time, some in groupby(entries, key=itemgetter(0)):
        first = last = None
        for _, value in some:
            first = value if first is None else min(first, value)
            last = value if last is None else max(last, value)
        assert first is not None
        assert last is not None
        yield Group(time, first, last)

"""Which element of a sorted side is the closest in time to one of the other side."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

NEVER = (1 << 63) - 1
"""A time in microseconds after all that there are."""

_time = itemgetter(0)


class Group(NamedTuple):
    """The elements on the right with one time.

    Attributes:
        time: in microseconds.
        first, last: of their values, by encoding.
    """

    time: int
    first: bytes
    last: bytes


class Closest(NamedTuple):
    """Which element is a match.

    Attributes:
        direction, tolerance, exact: as of :class:`AsOfJoin`; the tolerance in microseconds.
    """

    direction: str
    tolerance: int | None
    exact: bool

    def match(
        self, time: int, below: Group | None, at: Group | None, above: Group | None
    ) -> tuple[bytes | None, int]:
        """The match of an element on the left, and from when on it is final.

        Args:
            time: of the element, as all times in microseconds.
            below: what is known on the right before that time.
            at: likewise, at that time.
            above: likewise, after it.

        Returns:
            The match among what is known, None if there is none; and the time before which all
            elements on the right have to be known for that to be it, :data:`NEVER` for all.
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


class Walk:
    """Goes through the right side in the order of time, beside the left one.

    Args:
        entries: of the right side: times and encoded values, in the order of the times.
    """

    def __init__(self, entries: Iterable[tuple[int, bytes]]) -> None:
        self._groups = _groups(entries)
        self._ahead: deque[Group] = deque()
        self._below: Group | None = None

    def around(self, time: int) -> tuple[Group | None, Group | None, Group | None]:
        """What is before, at and after a time, which is not before that of the last call."""
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
    for time, some in groupby(entries, key=_time):
        first = last = None
        for _, value in some:
            first = value if first is None else min(first, value)
            last = value if last is None else max(last, value)
        assert first is not None
        assert last is not None
        yield Group(time, first, last)

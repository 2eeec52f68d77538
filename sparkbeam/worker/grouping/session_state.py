"""Stored sessions of a key, in streaming."""

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from struct import Struct
from typing import NamedTuple

from sparkbeam.aggregate.aggregator import in_session
from sparkbeam.worker.state.records import Record

EARLIEST = -(1 << 63)
"""Time before which no session starts."""

_SESSIONS, _VALUES, _OUTSIDE = b"sessions", b"session values", b"stamps outside"
_BUCKET_BYTES = 8 << 10
_HEAD = Struct(">qIBq")
_STAMPED, _COMBINED, _HOLDING = 1, 2, 4
_OF_VALUE = Struct(">qI")
_MOST_HELD = 256

Value = tuple[int, bytes]
"""A value, encoded, behind a time in its session."""


class StoredSession(NamedTuple):
    """A stored session; times are in microseconds.

    Attributes:
        stamp: the combined timestamp of its elements since the last one, None if that counts none.
        accumulator: encoded, of its values; None if values are kept or there are none.
        held: its values, if they are few bytes; None if they are kept aside, or combined.
    """

    start: int
    end: int
    panes: int
    stamp: int | None
    accumulator: bytes | None
    held: bytes | None

    def packed(self) -> bytes:
        """Return all but the start."""
        _, end, panes, stamp, accumulator, held = self
        flags = _STAMPED * (stamp is not None)
        flags |= _COMBINED * (accumulator is not None) | _HOLDING * (held is not None)
        return _HEAD.pack(end, panes, flags, stamp or 0) + (accumulator or held or b"")

    @classmethod
    def unpacked(cls, start: int, packed: bytes) -> "StoredSession":
        """Return the session of a start and of all else."""
        end, panes, flags, stamp = _HEAD.unpack_from(packed)
        return cls(
            start,
            end,
            panes,
            stamp if flags & _STAMPED else None,
            packed[_HEAD.size :] if flags & _COMBINED else None,
            packed[_HEAD.size :] if flags & _HOLDING else None,
        )


class StoredSessions:
    """The sessions of a key in order, no two of which overlap, and the kept values.

    They must not change while some are read.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._sessions = record.ordered(_SESSIONS, _BUCKET_BYTES)
        self._all_values = record.ordered(_VALUES, _BUCKET_BYTES)

    def add(self, sessions: Iterable[StoredSession]) -> None:
        """Store sessions that are not there."""
        self._sessions.add((session.start, session.packed()) for session in sessions)

    def remove(self, start: int, until: int) -> None:
        """Forget the sessions that start within some time; their values stay."""
        self._sessions.clear(start, until)

    def between(self, start: int, until: int | None) -> Iterator[StoredSession]:
        """Yield the sessions that start within some time, in order."""
        for at, packed in self._sessions.range(start, until):
            yield StoredSession.unpacked(at, packed)

    def overlapping(self, windows: Sequence[tuple[int, int]]) -> Iterator[list[StoredSession]]:
        """Yield the sessions that merge with each window, the last one first.

        The stored facts of all windows are read in few accesses.
        """
        lasts = self._sessions.lasts_before([max(end, start + 1) for start, end in windows])
        for (start, end), found in zip(windows, lasts, strict=True):
            sessions = []
            while found is not None:
                session = StoredSession.unpacked(*found)
                at = session.start
                until = end if start < at else session.end
                if not in_session(max(start, at), min(start, at), until):
                    break
                sessions.append(session)
                found = self._sessions.last_before(at)
            yield sessions

    def first_after(self, time: int) -> StoredSession | None:
        """Return the first session that ends after a time."""
        found = self._sessions.last_before(time + 1)
        if found is not None and (session := StoredSession.unpacked(*found)).end > time:
            return session
        return next(self.between(time + 1, None), None)

    def first_stamp(self, first: StoredSession | None) -> int | None:
        """Return the least timestamp from a session on; None if there is none."""
        if first is None:
            return None
        stamps = (session.stamp for session in self.between(first.start, None))
        known = (stamp for stamp in stamps if stamp is not None)
        if self._record.get(_OUTSIDE):
            return min(known, default=None)
        return next(known, None)

    def note_outside(self) -> None:
        """Record that an element is timestamped outside of its window: order no longer tells."""
        self._record.set(_OUTSIDE, True)

    def forget_outside(self) -> None:
        """Forget that, as no session is left."""
        self._record.pop(_OUTSIDE)

    def add_values(self, values: Iterable[Value]) -> None:
        """Store values aside."""
        entries = list(values)
        self._all_values.prefetch(time for time, _ in entries)
        self._all_values.add(entries)

    def values(self, session: StoredSession) -> list[bytes]:
        """Return the values of a session, in order of their times."""
        found: Iterable[Value] = self._all_values.range(session.start, _until(session))
        if session.held is not None:
            found = sorted(_values_in(session.held), key=itemgetter(0))
        return [value for _, value in found]

    def clear_values(self, session: StoredSession) -> None:
        """Forget the values of a session that are aside."""
        if session.held is None:
            self._all_values.clear(session.start, _until(session))


def gathered(
    before: Iterable[StoredSession], added: list[Value]
) -> tuple[bytes | None, list[Value]]:
    """Return the values of merging sessions, with new ones.

    Returns:
        The values of the session to hold, and those to keep aside.
    """
    parts = [session.held for session in before]
    held_parts = [part for part in parts if part is not None]
    size = sum(map(len, held_parts)) + sum(_OF_VALUE.size + len(value) for _, value in added)
    if len(held_parts) == len(parts) and size <= _MOST_HELD:
        new = [_OF_VALUE.pack(time, len(value)) + value for time, value in added]
        return b"".join(held_parts + new), []
    return None, [value for part in held_parts for value in _values_in(part)] + added


def _values_in(held: bytes) -> Iterator[Value]:
    at = 0
    while at < len(held):
        time, length = _OF_VALUE.unpack_from(held, at)
        at += _OF_VALUE.size + length
        yield time, held[at - length : at]


def _until(session: StoredSession) -> int:
    return max(session.end, session.start + 1)

"""What is stored of the sessions of a key, in streaming."""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from sparkbeam.windows.aggregator import in_session
from sparkbeam.worker.state.records import Record

EARLIEST = -(1 << 63)
"""No session starts before it."""

_SESSIONS, _VALUES, _OUTSIDE = b"sessions", b"session values", b"stamps outside"
_BUCKET_BYTES = 8 << 10
_HEAD = Struct(">qIBq")
_STAMPED, _COMBINED = 1, 2


class KeptSession(NamedTuple):
    """A session that is stored; times are in microseconds.

    Attributes:
        start, end: of its window.
        panes: how many it has had.
        stamp: the combined timestamp of its elements since the last one, None if that counts none.
        accumulator: of its values, encoded; None where these are kept, and if there are none.
    """

    start: int
    end: int
    panes: int
    stamp: int | None
    accumulator: bytes | None

    def packed(self) -> bytes:
        """All but the start."""
        stamp, accumulator = self.stamp, self.accumulator
        flags = _STAMPED * (stamp is not None) | _COMBINED * (accumulator is not None)
        return _HEAD.pack(self.end, self.panes, flags, stamp or 0) + (accumulator or b"")

    @classmethod
    def unpacked(cls, start: int, packed: bytes) -> "KeptSession":
        """The session of a start and of all else."""
        end, panes, flags, stamp = _HEAD.unpack_from(packed)
        return cls(
            start,
            end,
            panes,
            stamp if flags & _STAMPED else None,
            packed[_HEAD.size :] if flags & _COMBINED else None,
        )


class KeptSessions:
    """The sessions of a key, of which no two overlap, in order, and the values that are kept.

    They must not change while some are read.

    Args:
        record: the key's.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._sessions = record.ordered(_SESSIONS, _BUCKET_BYTES)
        self._all_values = record.ordered(_VALUES, _BUCKET_BYTES)

    def add(self, sessions: Iterable[KeptSession]) -> None:
        """Stores sessions that are not there."""
        self._sessions.add((session.start, session.packed()) for session in sessions)

    def remove(self, start: int, until: int) -> None:
        """Forgets the sessions that start within some time; their values stay."""
        self._sessions.clear(start, until)

    def between(self, start: int, until: int | None) -> Iterator[KeptSession]:
        """The sessions that start within some time, in order."""
        for at, packed in self._sessions.range(start, until):
            yield KeptSession.unpacked(at, packed)

    def overlapping(self, start: int, end: int) -> Iterator[KeptSession]:
        """The sessions that are one with a window, the last one first."""
        for at, packed in self._sessions.range(EARLIEST, max(end, start + 1), reverse=True):
            session = KeptSession.unpacked(at, packed)
            if not in_session(max(start, at), min(start, at), end if start < at else session.end):
                return
            yield session

    def first_after(self, time: int) -> KeptSession | None:
        """The first session that ends after a time."""
        for at, packed in self._sessions.range(EARLIEST, time + 1, reverse=True):
            session = KeptSession.unpacked(at, packed)
            if session.end > time:
                return session
            break
        return next(self.between(time + 1, None), None)

    def first_stamp(self, first: KeptSession | None) -> int | None:
        """The least timestamp from a session on; None if there is none."""
        if first is None:
            return None
        stamps = (session.stamp for session in self.between(first.start, None))
        known = (stamp for stamp in stamps if stamp is not None)
        if self._record.get(_OUTSIDE):
            return min(known, default=None)
        return next(known, None)

    def note_outside(self) -> None:
        """Notes that an element has a timestamp outside of its window: order no longer tells."""
        self._record.set(_OUTSIDE, True)

    def add_values(self, values: Iterable[tuple[int, bytes]]) -> None:
        """Keeps values, with a time in their session."""
        self._all_values.add(values)

    def values(self, session: KeptSession) -> list[bytes]:
        """The values of a session."""
        return [value for _, value in self._all_values.range(session.start, _until(session))]

    def clear_values(self, session: KeptSession) -> None:
        """Forgets them."""
        self._all_values.clear(session.start, _until(session))


def _until(session: KeptSession) -> int:
    return max(session.end, session.start + 1)

"""Cache of the events of recently read ranges.

Each action on a micro-batch runs its tasks again, and so does a retry of a task. They need not read
from the hub what this process still has.
"""

import threading
import time
from bisect import bisect_left
from collections.abc import Hashable
from dataclasses import dataclass, field

from pyspark_eventhubs.events import Events

MOST_BYTES = 16 << 20
"""Estimated maximum bytes that a process caches of all partitions."""

_SECONDS = 60
_EVENT_BYTES = 300


@dataclass
class _CachedRange:
    """The first events of a range, without gaps.

    Attributes:
        end: the sequence number behind the last cached event.
        size: their estimated bytes.
        used: the time of the last access.
    """

    begin: int
    end: int
    parts: list[Events] = field(default_factory=list)
    size: int = 0
    used: float = 0.0


class LastRanges:
    """Cache of one range of each partition while it is in use, bounded in total bytes."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._lock = threading.Lock()
        self._ranges: dict[Hashable, _CachedRange] = {}

    def add(self, of: Hashable, begin: int, position: int, events: Events) -> None:
        """Cache events read of a range at a position, and drop other ranges of the partition."""
        if not events.numbers:
            return
        with self._lock:
            found = self._ranges.get(of)
            if found is None or found.begin != begin:
                found = self._ranges[of] = _CachedRange(begin, begin)
            found.used = time.monotonic()
            size = _size(events)
            if position == found.end and self._has_room(size, found):
                found.parts.append(events)
                found.size += size
                found.end = events.numbers[-1] + 1

    def get(self, of: Hashable, position: int, end: int) -> Events | None:
        """Return the next events from a position to an end; None if they are not cached."""
        with self._lock:
            found = self._ranges.get(of)
            if found is None or not found.begin <= position < min(found.end, end):
                return None
            found.used = time.monotonic()
            at = bisect_left(found.parts, position, key=lambda part: part.numbers[-1])
            some = _between(found.parts[at], position, end)
        return some if some.numbers else None

    def forget(self, of: Hashable) -> None:
        """Drop the events of a partition."""
        with self._lock:
            self._ranges.pop(of, None)

    def forget_idle(self, now: float) -> None:
        """Drop the events that have been idle for too long."""
        with self._lock:
            kept = self._ranges.items()
            self._ranges = {of: one for of, one in kept if now - one.used <= _SECONDS}

    def _has_room(self, size: int, growing: _CachedRange) -> bool:
        """Make room if possible, by dropping other ranges, least recently used first."""
        room = self._most - growing.size - size
        others = [(of, one) for of, one in self._ranges.items() if one is not growing]
        for of, one in sorted(others, key=lambda other: other[1].used, reverse=True):
            room -= one.size
            if room < 0:
                del self._ranges[of]
        return growing.size + size <= self._most


def _between(events: Events, position: int, end: int) -> Events:
    """Return the events within a range."""
    low, high = bisect_left(events.numbers, position), bisect_left(events.numbers, end)
    return Events(*(column[low:high] for column in events.columns()), again=True)


def _size(events: Events) -> int:
    pairs = (pair for of in (events.properties, events.system) for some in of for pair in some)
    texts = sum(len(name) + len(value or "") for name, value in pairs)
    return sum(map(len, events.bodies)) + texts + _EVENT_BYTES * len(events)

"""The events of the ranges that were read last, for whoever reads one again.

Each action on a micro-batch is another run of its tasks, and so is a second attempt at one. They
need not ask the hub for what this process still has.
"""

import threading
import time
from bisect import bisect_left
from collections.abc import Hashable
from dataclasses import dataclass, field

from sparkbeam.eventhubs.client import Events

MOST_BYTES = 16 << 20
"""What a process keeps of all partitions, by estimate."""

_SECONDS = 60
_EVENT_BYTES = 300


@dataclass
class _Range:
    """The first events of a range, without a gap.

    Attributes:
        begin: where the range begins.
        end: the sequence number behind the last event that is kept.
        parts: the events, as they were read.
        size: their bytes, by estimate.
        used: when somebody last added to them, or read them.
    """

    begin: int
    end: int
    parts: list[Events] = field(default_factory=list)
    size: int = 0
    used: float = 0.0


class LastRanges:
    """Keeps one range of each partition while it is in use, up to a number of bytes in all."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._lock = threading.Lock()
        self._ranges: dict[Hashable, _Range] = {}

    def add(self, of: Hashable, begin: int, position: int, events: Events) -> None:
        """Keeps what was read of a range at a position; another range of the partition goes."""
        if not events.numbers:
            return
        with self._lock:
            found = self._ranges.get(of)
            if found is None or found.begin != begin:
                found = self._ranges[of] = _Range(begin, begin)
            found.used = time.monotonic()
            size = _size(events)
            if position == found.end and self._has_room(size, found):
                found.parts.append(events)
                found.size += size
                found.end = events.numbers[-1] + 1

    def get(self, of: Hashable, position: int, end: int) -> Events | None:
        """The next events from a position on, before an end; None if they are not here."""
        with self._lock:
            found = self._ranges.get(of)
            if found is None or not found.begin <= position < min(found.end, end):
                return None
            found.used = time.monotonic()
            at = bisect_left(found.parts, position, key=lambda part: part.numbers[-1])
            some = _between(found.parts[at], position, end)
        return some if some.numbers else None

    def forget(self, of: Hashable) -> None:
        """Drops what is kept of a partition."""
        with self._lock:
            self._ranges.pop(of, None)

    def forget_idle(self, now: float) -> None:
        """Drops what nobody has used for long."""
        with self._lock:
            kept = self._ranges.items()
            self._ranges = {of: one for of, one in kept if now - one.used <= _SECONDS}

    def _has_room(self, size: int, growing: _Range) -> bool:
        """Makes room, if it can: of other ranges those go first that were not used for longest."""
        room = self._most - growing.size - size
        others = [(of, one) for of, one in self._ranges.items() if one is not growing]
        for of, one in sorted(others, key=lambda other: other[1].used, reverse=True):
            room -= one.size
            if room < 0:
                del self._ranges[of]
        return growing.size + size <= self._most


def _between(events: Events, position: int, end: int) -> Events:
    """Those of some events that are in a range."""
    low, high = bisect_left(events.numbers, position), bisect_left(events.numbers, end)
    return Events(*(column[low:high] for column in events.columns()), again=True)


def _size(events: Events) -> int:
    pairs = (pair for of in (events.properties, events.system) for some in of for pair in some)
    texts = sum(len(name) + len(value or "") for name, value in pairs)
    return sum(map(len, events.bodies)) + texts + _EVENT_BYTES * len(events)

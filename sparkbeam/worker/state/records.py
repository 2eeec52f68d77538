"""The record of a key: cells with values, timers, holds of the watermark, and collections."""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple, Protocol

from sparkbeam.worker.state.bags import BAG, Bag, drop_bag
from sparkbeam.worker.state.entries import Overflow
from sparkbeam.worker.state.ordered_bag import OrderedBag, drop_ordered

EVENT_TIME, PROCESSING_TIME = 0, 1
"""The domains of timers; event time fires first."""

Timer = tuple[int, int, int | None, Any]
"""Firing time, domain, hold on the watermark, and payload of a timer; times in microseconds."""


class Hold(NamedTuple):
    """Hold on the watermark.

    Attributes:
        micros: the time that the watermark cannot pass, in microseconds.
        key: the encoded key that has the hold.
        is_timer: True if a timer has the hold, False if content that waits for a timer has it.
        until: the firing time of the timer that releases the hold, in microseconds; None if no
            timer does.
        id: the id of the timer that has the hold; empty if none has.
    """

    micros: int
    key: bytes
    is_timer: bool
    until: int | None
    id: bytes = b""


_OTHER_BYTES = 64
_TIMER_BYTES = 48

HELD_BYTES = _OTHER_BYTES + 2 * _TIMER_BYTES
"""Approximate size of a cell with a small value, a timer and a hold."""


class RecordOwner(Protocol):
    """The page that a record is in."""

    @property
    def overflow(self) -> Overflow:
        """Overflow of the large collections of the page's stage."""

    def changed(self, key: bytes, growth: int) -> None:
        """Note that the record of a key has changed, and its growth in bytes."""

    def rescheduled(self) -> None:
        """Note that timers or holds of a record have changed."""


class Records(Protocol):
    """The records of a stage's keys."""

    overflow: Overflow

    def record(self, key: bytes) -> "Record":
        """Return the record of a key, created if there is none."""


class Record:
    """The state of one key in a stage.

    A cell has a value, a bag or an ordered bag. A value has to be plain data, without parts that
    contain themselves; what it contains must not be changed after it has been set.
    """

    __slots__ = ("_cells", "_collections", "_count", "_heaps", "_holds", "_timers", "key", "page")

    def __init__(self, key: bytes, page: RecordOwner, content: Any = None) -> None:
        self.key = key
        self.page = page
        self._cells: dict[bytes, Any]
        self._timers: dict[bytes, Timer]
        self._holds: dict[bytes, int]
        self._collections: dict[bytes, list[Any]]
        if type(content) is tuple:
            self._cells, self._timers, self._holds, self._collections = content
        else:
            self._cells = {} if content is None else content
            self._timers, self._holds, self._collections = {}, {}, {}
        self._heaps: dict[int, list[tuple[int, int, bytes, Timer]]] = {}
        self._count = 0

    def content(self) -> Any:
        """Return the stored content; None if there is none."""
        if self._timers or self._holds or self._collections:
            return self._cells, self._timers, self._holds, self._collections
        return self._cells or None

    def get(self, cell: bytes, default: Any = None) -> Any:
        """Return the value of a cell."""
        return self._cells.get(cell, default)

    def set(self, cell: bytes, value: Any) -> None:
        """Set the value of a cell that has no collection."""
        growth = _size(value) - _size(self._cells.get(cell))
        self._cells[cell] = value
        self.page.changed(self.key, growth)

    def pop(self, cell: bytes) -> Any:
        """Empty a cell, whatever its content; return the value if it was one, else None."""
        state = self._collections.get(cell)
        if state is not None:
            self._drop(state)
            self.set_collection(cell, None, 0)
        if cell not in self._cells:
            return None
        value = self._cells.pop(cell)
        self.page.changed(self.key, -_size(value))
        return value

    def cells(self) -> list[bytes]:
        """Return the names of all cells that are not empty."""
        return [*self._cells, *self._collections]

    def bag(self, cell: bytes) -> Bag:
        """Return the bag in a cell; an empty one takes no space."""
        return Bag(self, cell)

    def ordered(self, cell: bytes, bucket_bytes: int | None = None) -> OrderedBag[Any]:
        """Return the ordered bag in a cell; an empty one takes no space."""
        return OrderedBag(self, cell, bucket_bytes)

    def set_timer(self, id: bytes, domain: int, fire: int, hold: int | None, payload: Any) -> None:
        """Set a timer, replacing the one with the same id.

        Args:
            domain: EVENT_TIME or PROCESSING_TIME.
            fire: when it is due, in microseconds.
            hold: keeps the watermark from passing this time until it has fired.
            payload: plain data, see :mod:`~sparkbeam.wire.plaindata`.
        """
        timer = (fire, domain, hold, payload)
        is_new = self._timers.pop(id, None) is None
        self._timers[id] = timer
        heap = self._heaps.get(domain)
        if heap is not None:
            self._count += 1
            heappush(heap, (fire, self._count, id, timer))
        self.page.changed(self.key, _TIMER_BYTES * is_new)
        self.page.rescheduled()

    def clear_timer(self, id: bytes) -> None:
        """Remove a timer, if it is there."""
        if self._timers.pop(id, None) is not None:
            self.page.changed(self.key, -_TIMER_BYTES)
            self.page.rescheduled()

    def timer(self, id: bytes) -> Timer | None:
        """Return a timer that is set."""
        return self._timers.get(id)

    def timers(self) -> Iterator[tuple[bytes, Timer]]:
        """Yield all timers, in the order in which they were set."""
        return iter(self._timers.items())

    def pop_due(self, domain: int, limit: int) -> tuple[int, bytes, Any] | None:
        """Remove the first timer due at a time; return its firing time, id and payload.

        Of timers for the same time, the one that was set first comes first.
        """
        heap = self._heaps.get(domain)
        if heap is None:
            heap = self._heaps[domain] = []
            for id, timer in self._timers.items():
                if timer[1] == domain:
                    self._count += 1
                    heap.append((timer[0], self._count, id, timer))
            heapify(heap)
        while heap and heap[0][0] <= limit:
            fire, _, id, timer = heappop(heap)
            if self._timers.get(id) is timer:
                self.clear_timer(id)
                return fire, id, timer[3]
        return None

    def set_hold(self, cell: bytes, micros: int | None) -> None:
        """Keep the watermark from passing a time, until another one or None is set."""
        before = self._holds.get(cell)
        if before == micros:
            return
        if micros is None:
            del self._holds[cell]
        else:
            self._holds[cell] = micros
        self.page.changed(self.key, _TIMER_BYTES * ((before is None) - (micros is None)))
        self.page.rescheduled()

    def hold(self, cell: bytes) -> int | None:
        """Return the hold of a cell."""
        return self._holds.get(cell)

    def clear(self) -> None:
        """Remove all content."""
        if self._timers or self._holds:
            self.page.rescheduled()
        for state in self._collections.values():
            self._drop(state)
        for part in (self._cells, self._timers, self._holds, self._collections, self._heaps):
            part.clear()
        self.page.changed(self.key, 0)

    @property
    def overflow(self) -> Overflow:
        """Overflow of large collections."""
        return self.page.overflow

    def collection(self, cell: bytes) -> list[Any] | None:
        """Return the state of a collection."""
        return self._collections.get(cell)

    def set_collection(self, cell: bytes, state: list[Any] | None, growth: int) -> None:
        """Note a changed collection, and the growth of its record in bytes."""
        if state is None:
            self._collections.pop(cell, None)
        else:
            self._collections[cell] = state
        self.page.changed(self.key, growth)

    def _drop(self, state: list[Any]) -> None:
        (drop_bag if state[0] == BAG else drop_ordered)(state, self.page.overflow)


def _size(value: Any) -> int:
    """Return the approximate size of a value in bytes; None is the value of no cell."""
    if value is None:
        return 0
    return len(value) if type(value) is bytes else _OTHER_BYTES


def schedule(content: Any) -> tuple[dict[bytes, Timer], dict[bytes, int]] | None:
    """Return the timers and holds of a record, or of its content; None if it can have none."""
    if type(content) is Record:
        return content._timers, content._holds
    return content[1:3] if type(content) is tuple else None


def holds(key: bytes, content: Any) -> Iterator[Hold]:
    """Yield the holds of a record, or of the content of one, on the watermark."""
    timers, held = schedule(content) or ({}, {})
    for id, (fire, _, hold, _) in timers.items():
        if hold is not None:
            yield Hold(hold, key, True, fire, id)
    first = min(
        (fire for fire, domain, *_ in timers.values() if domain == EVENT_TIME), default=None
    )
    for cell, micros in held.items():
        yield Hold(micros, key, False, timers[cell][0] if cell in timers else first)

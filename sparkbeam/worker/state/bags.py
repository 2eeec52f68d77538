"""Bags of a record: lists of bytes that leave the record when they grow.

A small bag is a list within the record. Beyond :data:`SMALL_BYTES` its items move to segments. Each
segment is a separate entry, so that an addition rewrites at most the last segment.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

from sparkbeam.worker.state.entries import Overflow

SMALL_BYTES = 4 << 10
"""Maximum size of collections that are kept within the record."""

SEGMENT_BYTES = 64 << 10
"""Approximate size at which a segment takes no more items."""

ITEM_BYTES = 5
"""Size of an item besides its bytes."""

_READ_AHEAD = 16

BAG = 0
"""First element of the state of a bag, which distinguishes it from other collections."""

# The state of a bag: what it is, the items within the record, their bytes, the runs of
# segments as [first number, how many], the items and bytes in all segments, the items and
# bytes in the last one.
_ITEMS, _BYTES, _RUNS, _SPILLED, _SPILLED_BYTES, _LAST, _LAST_BYTES = range(1, 8)


class CollectionOwner(Protocol):
    """The record that a collection belongs to."""

    @property
    def overflow(self) -> Overflow:
        """Overflow of the large entries."""

    def collection(self, cell: bytes) -> list[Any] | None:
        """Return the state of the collection in a cell."""

    def set_collection(self, cell: bytes, state: list[Any] | None, growth: int) -> None:
        """Record that the state of a collection is new or has changed; None removes it.

        Args:
            growth: the approximate change of the bytes within the record.
        """


class Bag:
    """A list of bytes in a cell of a record.

    It may be appended to while it is read, but not cleared.
    """

    __slots__ = ("_cell", "_owner")

    def __init__(self, owner: CollectionOwner, cell: bytes) -> None:
        self._owner = owner
        self._cell = cell

    def __len__(self) -> int:
        state = self._owner.collection(self._cell)
        return len(state[_ITEMS]) + state[_SPILLED] if state else 0

    def __iter__(self) -> Iterator[bytes]:
        state = self._owner.collection(self._cell)
        if not state:
            return iter(())
        items = state[_ITEMS][:]
        if not state[_RUNS]:
            return iter(items)
        return self._read(list(_numbers(state)), state[_LAST], items)

    def _read(self, numbers: list[int], in_last: int, items: list[bytes]) -> Iterator[bytes]:
        peek = self._owner.overflow.peek
        for low in range(0, len(numbers) - 1, _READ_AHEAD):
            for content in peek(numbers[low : min(low + _READ_AHEAD, len(numbers) - 1)]):
                yield from content
        yield from islice(peek(numbers[-1:])[0], in_last)
        yield from items

    def read_later(self) -> None:
        """Announce a read of the bag, see :meth:`.Overflow.announce`."""
        self._owner.overflow.announce(self._ahead)

    def _ahead(self, room: int) -> Iterator[Iterable[int]]:
        state = self._owner.collection(self._cell)
        if state and state[_RUNS]:
            segments = sum(many for _, many in state[_RUNS])
            yield islice(_numbers(state), room * segments // state[_SPILLED_BYTES])

    def append(self, items: Sequence[bytes]) -> None:
        """Add items to the end."""
        if not items:
            return
        state = self._owner.collection(self._cell)
        if state is None:
            state = [BAG, [], 0, [], 0, 0, 0, 0]
        before = state[_BYTES]
        state[_ITEMS].extend(items)
        state[_BYTES] += sum(map(len, items)) + ITEM_BYTES * len(items)
        if state[_BYTES] > SMALL_BYTES:
            self._spill(state)
        self._owner.set_collection(self._cell, state, state[_BYTES] - before)

    def clear(self) -> None:
        """Remove all items."""
        state = self._owner.collection(self._cell)
        if state is not None:
            drop_bag(state, self._owner.overflow)
            self._owner.set_collection(self._cell, None, -state[_BYTES])

    def replace(self, items: Sequence[bytes]) -> None:
        """Replace all items by these."""
        self.clear()
        self.append(items)

    def _spill(self, state: list[Any]) -> None:
        overflow = self._owner.overflow
        items = iter(state[_ITEMS])
        if state[_RUNS] and state[_LAST_BYTES] < SEGMENT_BYTES:
            first, many = state[_RUNS][-1]
            entry = overflow.load([first + many - 1])[0]
            part, size = _take(items, state[_LAST_BYTES])
            if part:
                entry.content.extend(part)
                overflow.resize(entry, state[_LAST_BYTES], size)
                _note_last(state, len(part), size - state[_LAST_BYTES])
        while True:
            part, size = _take(items, 0)
            if not part:
                break
            number = overflow.create(part, size)
            runs = state[_RUNS]
            if runs and sum(runs[-1]) == number:
                runs[-1][1] += 1
            else:
                runs.append([number, 1])
            state[_LAST] = state[_LAST_BYTES] = 0
            _note_last(state, len(part), size)
        state[_ITEMS] = []
        state[_BYTES] = 0
        overflow.cache.trim()


def drop_bag(state: list[Any], overflow: Overflow) -> None:
    """Remove the segments of a bag."""
    if state[_RUNS]:
        overflow.delete(_numbers(state), state[_SPILLED_BYTES])


def _numbers(state: list[Any]) -> Iterator[int]:
    for first, many in state[_RUNS]:
        yield from range(first, first + many)


def _note_last(state: list[Any], items: int, size: int) -> None:
    state[_SPILLED] += items
    state[_SPILLED_BYTES] += size
    state[_LAST] += items
    state[_LAST_BYTES] += size


def _take(items: Iterator[bytes], size: int) -> tuple[list[bytes], int]:
    """Return items until a segment of this many bytes is full, and its bytes then."""
    part: list[bytes] = []
    while size < SEGMENT_BYTES:
        item = next(items, None)
        if item is None:
            break
        part.append(item)
        size += len(item) + ITEM_BYTES
    return part, size

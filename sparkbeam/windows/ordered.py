"""Sessions in their order: a place is found by bisection, and two buffers merge in one pass."""

import heapq
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import apache_beam as beam

from sparkbeam.windows.aggregator import Session, Stamps, in_session, merged

_START = itemgetter(0)
_EARLIEST = -(1 << 63) - 1
_PIECE = 500
_MOST = 2 * _PIECE


class _Block:
    """Sessions by their start; times are in microseconds, of 64 bits.

    Attributes:
        starts: theirs, ascending.
        ends: the same.
        stamps: their timestamps.
        accumulators: of their values.
    """

    __slots__ = ("accumulators", "ends", "stamps", "starts")

    def __init__(self) -> None:
        self.starts = array("q")
        self.ends = array("q")
        self.stamps = array("q")
        self.accumulators: list[Any] = []

    def insert(self, at: int, start: int, end: int, stamp: int, accumulator: Any) -> None:
        """Adds a session at its place."""
        self.starts.insert(at, start)
        self.ends.insert(at, end)
        self.stamps.insert(at, stamp)
        self.accumulators.insert(at, accumulator)

    def remove(self, low: int, high: int) -> None:
        """Removes some sessions."""
        del self.starts[low:high], self.ends[low:high], self.stamps[low:high]
        del self.accumulators[low:high]

    def cut(self) -> "_Block":
        """Parts with the first sessions."""
        first = _Block()
        first.starts, first.ends = self.starts[:_PIECE], self.ends[:_PIECE]
        first.stamps, first.accumulators = self.stamps[:_PIECE], self.accumulators[:_PIECE]
        self.remove(0, _PIECE)
        return first

    def take_before(self, block: "_Block") -> None:
        """Takes in the sessions of the block before."""
        self.starts[:0], self.ends[:0] = block.starts, block.ends
        self.stamps[:0], self.accumulators[:0] = block.stamps, block.accumulators


class Buffer(_Block):
    """The sessions of a key by their start.

    Where they are many, only the last ones are in the lists of the buffer itself, and the others in
    blocks before it: so one that comes in between moves those of a block at most.

    Attributes:
        count: how many sessions there are in all.
        since: the start of the first one in the buffer itself, if there are blocks.
        blocks: those before, in order.
        bounds: the start of what is behind each of them.
    """

    __slots__ = ("blocks", "bounds", "count", "since")

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.since = _EARLIEST
        self.blocks: list[_Block] = []
        self.bounds: list[int] = []

    def __len__(self) -> int:
        return self.count

    def append(self, start: int, end: int, stamp: int, accumulator: Any) -> None:
        """Adds a session behind all others."""
        self.insert(len(self.starts), start, end, stamp, accumulator)
        self.has_grown(self)

    def block_of(self, start: int, end: int) -> _Block:
        """What a window that starts before the buffer's own sessions is for.

        None of the sessions that it is one with are elsewhere.
        """
        at = bisect_right(self.bounds, start)
        while self.bounds[at] < end:
            block = self.blocks.pop(at)
            del self.bounds[at]
            if at == len(self.blocks):
                self.take_before(block)
                self.since = self.bounds[-1] if self.bounds else _EARLIEST
                return self
            self.blocks[at].take_before(block)
        return self.blocks[at]

    def has_grown(self, block: _Block) -> None:
        """Notes that there is one more session, and parts a long block."""
        self.count += 1
        while len(block.starts) > _MOST:
            at = bisect_right(self.bounds, block.starts[0])
            self.blocks.insert(at, block.cut())
            self.bounds.insert(at, block.starts[0])
            self.since = self.bounds[-1]

    def sessions(self) -> Iterator[Session]:
        """All of them, in order."""
        for block in (*self.blocks, self):
            columns = block.starts, block.ends, block.stamps, block.accumulators
            yield from map(Session, *columns)


class OrderedSessions:
    """Keeps sessions sorted, so that an element meets none but those that it joins.

    Args:
        combine_fn: of their values.
        stamps: of their timestamps.
    """

    def __init__(self, combine_fn: beam.CombineFn, stamps: Stamps) -> None:
        self._combine_fn = combine_fn
        self._create = combine_fn.create_accumulator
        self._add_input = combine_fn.add_input
        self._stamps = stamps

    def zero(self) -> Buffer:
        return Buffer()

    def reduce(self, buffer: Buffer, start: int, end: int, stamp: int, value: Any) -> Buffer:
        block = buffer if start >= buffer.since else buffer.block_of(start, end)
        starts, ends = block.starts, block.ends
        is_last = not starts or start >= starts[-1]
        at = len(starts) if is_last else bisect_right(starts, start)
        # As in_session() has it, written out where it is for each element.
        if at and (start < ends[at - 1] or start == starts[at - 1]):
            at -= 1
        elif is_last or not in_session(starts[at], start, end):
            block.insert(at, start, end, stamp, self._add_input(self._create(), value))
            buffer.has_grown(block)
            return buffer
        else:
            starts[at] = start
        if end > ends[at]:
            ends[at] = end
            if not is_last:
                buffer.count -= self._join(block, at)
        stamps, accumulators = block.stamps, block.accumulators
        stamps[at] = self._stamps(stamps[at], stamp)
        accumulators[at] = self._add_input(accumulators[at], value)
        return buffer

    def _join(self, block: _Block, at: int) -> int:
        """Takes those into a session that it has come to reach; how many they are."""
        starts, ends, stamps = block.starts, block.ends, block.stamps
        behind = at + 1
        while behind < len(starts) and in_session(starts[behind], starts[at], ends[at]):
            ends[at] = max(ends[at], ends[behind])
            stamps[at] = self._stamps(stamps[at], stamps[behind])
            behind += 1
        if behind > at + 1:
            joined = block.accumulators[at:behind]
            block.accumulators[at] = merged(self._combine_fn, joined)
            block.remove(at + 1, behind)
        return behind - at - 1

    def merge(self, left: Buffer, right: Buffer) -> Buffer:
        result = Buffer()
        parts: list[Any] = []
        for session in heapq.merge(self.finish(left), self.finish(right), key=_START):
            if result.starts and in_session(session.start, result.starts[-1], result.ends[-1]):
                result.ends[-1] = max(result.ends[-1], session.end)
                result.stamps[-1] = self._stamps(result.stamps[-1], session.stamp)
            else:
                self._close(result, parts)
                result.append(*session)
                parts = []
            parts.append(session.accumulator)
        self._close(result, parts)
        return result

    def _close(self, buffer: Buffer, parts: list[Any]) -> None:
        """Merges the accumulators of the last session."""
        if len(parts) > 1:
            buffer.accumulators[-1] = merged(self._combine_fn, parts)

    def finish(self, buffer: Buffer) -> Iterator[Session]:
        return buffer.sessions()

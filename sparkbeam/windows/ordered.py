"""Sessions in their order: a place is found by bisection, and two buffers merge in one pass."""

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, MutableSequence
from operator import itemgetter
from typing import Any

import apache_beam as beam

from sparkbeam.windows.aggregator import Session, Stamps, in_session, merged

_START = itemgetter(0)
_EARLIEST = -(1 << 63) - 1
_PIECE = 100
_MOST = 2 * _PIECE

_Times = MutableSequence[int]


class _Block:
    """Sessions by their start; times are in microseconds.

    Attributes:
        starts: theirs, ascending.
        ends: the same.
        stamps: their timestamps.
        accumulators: of their values.
    """

    __slots__ = ("accumulators", "ends", "stamps", "starts")

    def __init__(self, starts: _Times, ends: _Times, stamps: _Times, accumulators: list[Any]):
        self.starts = starts
        self.ends = ends
        self.stamps = stamps
        self.accumulators = accumulators

    def insert(self, at: int, start: int, end: int, stamp: int, accumulator: Any) -> None:
        """Adds a session at its place."""
        self.starts.insert(at, start)
        self.ends.insert(at, end)
        self.stamps.insert(at, stamp)
        self.accumulators.insert(at, accumulator)

    def remove(self, low: int, high: int) -> None:
        """Removes some sessions."""
        if high == low + 1:  # Faster than a slice, and most often so.
            del self.starts[low], self.ends[low], self.stamps[low], self.accumulators[low]
            return
        del self.starts[low:high], self.ends[low:high], self.stamps[low:high]
        del self.accumulators[low:high]

    def cut(self) -> "_Block":
        """Parts with the first sessions."""
        times = self.starts, self.ends, self.stamps
        starts, ends, stamps = (array("q", some[:_PIECE]) for some in times)
        first = _Block(starts, ends, stamps, self.accumulators[:_PIECE])
        self.remove(0, _PIECE)
        return first

    def take_before(self, block: "_Block") -> None:
        """Takes in the sessions of the block before."""
        self.starts[:0], self.ends[:0] = block.starts, block.ends
        self.stamps[:0], self.accumulators[:0] = block.stamps, block.accumulators


class Buffer(_Block):
    """The sessions of a key by their start.

    Where they are many, only the last ones are in the lists of the buffer itself, and the others in
    blocks before it: so one that comes in between moves those of a block at most. The buffer's own
    times are in lists, which are faster, those of blocks in arrays, of which a fifth of the memory
    has to come into the processor's caches.

    Attributes:
        count: how many sessions there are in all.
        since: the start of the first one in the buffer itself, if there are blocks.
        blocks: those before, in order.
        bounds: the start of what is behind each of them.
    """

    __slots__ = ("blocks", "bounds", "count", "since")

    def __init__(self) -> None:
        super().__init__([], [], [], [])
        self.count = 0
        self.since = _EARLIEST
        self.blocks: list[_Block] = []
        self.bounds: list[int] = []

    def __len__(self) -> int:
        return self.count

    def append(self, start: int, end: int, stamp: int, accumulator: Any) -> None:
        """Adds a session behind all others."""
        self.starts.append(start)
        self.ends.append(end)
        self.stamps.append(stamp)
        self.accumulators.append(accumulator)
        self.has_grown(self)

    def until(self, start: int, end: int) -> _Block:
        """The block of a start before the last block's, and with it all that begins before an end.

        Its sessions keep their places.
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
        self._is_latest = stamps is max

    def zero(self) -> Buffer:
        return Buffer()

    def reduce(self, buffer: Buffer, start: int, end: int, stamp: int, value: Any) -> Buffer:
        if start >= buffer.since:
            block: _Block = buffer
            starts = buffer.starts
            is_behind = not starts or start >= starts[-1]
        else:
            block = buffer.blocks[bisect_right(buffer.bounds, start)]
            starts = block.starts
            is_behind = False
        ends = block.ends
        at = (len(starts) if is_behind else bisect_right(starts, start)) - 1
        # As in_session() has it, written out where it is for each element.
        if at >= 0 and (start < ends[at] or start == starts[at]):
            if end > ends[at]:
                behind = at + 1
                if not is_behind and (behind == len(starts) or starts[behind] < end):
                    return self._join(buffer, block, at, start, end, stamp, value)
                ends[at] = end
        elif is_behind:
            buffer.append(start, end, stamp, self._add_input(self._create(), value))
            return buffer
        else:
            return self._join(buffer, block, at + 1, start, end, stamp, value)
        # Of two timestamps the later one, or the earlier one.
        if (stamp > block.stamps[at]) is self._is_latest:
            block.stamps[at] = stamp
        accumulators = block.accumulators
        accumulators[at] = self._add_input(accumulators[at], value)
        return buffer

    def _join(
        self, buffer: Buffer, block: _Block, at: int, start: int, end: int, stamp: int, value: Any
    ) -> Buffer:
        """Takes in an element that may reach several sessions, or none.

        Args:
            buffer: takes it.
            block: has the sessions.
            at: the place of the first that it may reach.
            start: of the element's window.
            end: the same.
            stamp: its timestamp.
            value: its value.
        """
        starts = block.starts
        behind = at
        while behind < len(starts) and starts[behind] < end:
            behind += 1
        if behind == len(starts) and block is not buffer:
            block = buffer.until(start, end)
            starts = block.starts
            behind = bisect_left(starts, end, at)
        if behind == at:
            block.insert(at, start, end, stamp, self._add_input(self._create(), value))
            buffer.has_grown(block)
            return buffer
        if start < starts[at]:
            starts[at] = start
        block.ends[at] = max(block.ends[behind - 1], end)
        if behind > at + 1:
            self._unite(block, at, behind)
            buffer.count -= behind - at - 1
        stamps, accumulators = block.stamps, block.accumulators
        if (stamp > stamps[at]) is self._is_latest:
            stamps[at] = stamp
        accumulators[at] = self._add_input(accumulators[at], value)
        return buffer

    def _unite(self, block: _Block, at: int, behind: int) -> None:
        """Makes one of several sessions, whose start and end the first one has."""
        stamps, accumulators = block.stamps, block.accumulators
        for place in range(at + 1, behind):
            if (stamps[place] > stamps[at]) is self._is_latest:
                stamps[at] = stamps[place]
        accumulators[at] = self._combine_fn.merge_accumulators(accumulators[at:behind])
        block.remove(at + 1, behind)

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

"""Sorted sessions: a position is found by bisection."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, MutableSequence
from dataclasses import dataclass
from functools import reduce
from operator import itemgetter
from typing import Any

import apache_beam as beam
from apache_beam.transforms.combiners import CountCombineFn

from sparkbeam.aggregate.aggregator import Session, Stamps

_START = itemgetter(0)
_EARLIEST = -(1 << 63) - 1
_PIECE = 64
_MOST = 2 * _PIECE
_NEAR = 4
"""Number of edges that most elements reach no further than."""


@dataclass(frozen=True, slots=True)
class _Combining:
    """Functions that combine values.

    Attributes:
        first: makes the accumulator of one value.
        add: adds another value to an accumulator; None if it counts, whatever the value is.
        merge: makes one accumulator of several.
    """

    first: Callable[[Any], Any]
    add: Callable[[Any, Any], Any] | None
    merge: Callable[[Any], Any]


_Block = tuple[MutableSequence[int], list[Any]]
"""Sessions by their start, in microseconds: start and end of each in turn, so that an odd number of
them is before a time within a session; and the accumulators of their values."""


class Buffer:
    """The sessions of a key by their start.

    Where they are many, they are in blocks, so that one that comes in between moves those of a
    block at most. The times of the last block are in a list, which is faster, those of others in
    arrays, which touch a fifth of the memory.

    Most often all timestamps are equally far from the ends of their windows, if the latest one
    counts, or else from the starts, and so are those of sessions. As long as that is so there is
    nothing else to keep of them.

    Attributes:
        combining: the same; with timestamps, where these have to be kept with the accumulators.
        offset: how far before end or start timestamps are; None before the first one, and where
            they differ in that.
        count: the number of all sessions.
        blocks: those with the sessions, in order.
        last: the last one of them.
        bounds: the start of each but the first.
        since: the start of the last one, if there are others.
    """

    __slots__ = ("blocks", "bounds", "combining", "count", "last", "offset", "since")

    def __init__(self, combining: _Combining) -> None:
        self.combining = combining
        self.offset: int | None = None
        self.count = 0
        self.last: _Block = ([], [])
        self.blocks: list[_Block] = [self.last]
        self.bounds: list[int] = []
        self.since = _EARLIEST

    def __len__(self) -> int:
        return self.count

    def append(self, start: int, end: int, accumulator: Any) -> None:
        """Add a session behind all others."""
        edges, accumulators = self.last
        edges.append(start)
        edges.append(end)
        accumulators.append(accumulator)
        self.count += 1
        if len(accumulators) > _MOST:
            self.cut(self.last)

    def until(self, start: int, end: int) -> _Block:
        """Return the block of a start before the last block's, with all that begins before an end.

        Its sessions keep their positions.
        """
        at = bisect_right(self.bounds, start)
        while at < len(self.bounds) and self.bounds[at] < end:
            edges, accumulators = self.blocks[at + 1]
            edges[:0], accumulators[:0] = self.blocks[at]
            del self.blocks[at], self.bounds[at]
        self.since = self.bounds[-1] if self.bounds else _EARLIEST
        return self.blocks[at]

    def cut(self, block: _Block) -> None:
        """Split a long block."""
        edges, accumulators = block
        while len(accumulators) > _MOST:
            at = bisect_right(self.bounds, edges[0])
            self.blocks.insert(at, (array("q", edges[: 2 * _PIECE]), accumulators[:_PIECE]))
            del edges[: 2 * _PIECE], accumulators[:_PIECE]
            self.bounds.insert(at, edges[0])
            self.since = self.bounds[-1]


class OrderedSessions:
    """Sorted sessions, so that an element meets only the sessions that it joins."""

    def __init__(self, combine_fn: beam.CombineFn, stamps: Stamps) -> None:
        self._combine_fn = combine_fn
        self._stamps = stamps
        self._is_latest = stamps is max
        if type(combine_fn) is CountCombineFn:
            self._plain = _Combining(lambda _: 1, None, sum)
        else:
            self._plain = _Combining(
                self._first, combine_fn.add_input, combine_fn.merge_accumulators
            )
        self._stamped = _Combining(self._first_stamped, self._add_stamped, self._merge_stamped)

    def zero(self) -> Buffer:
        return Buffer(self._plain)

    def reduce(self, buffer: Buffer, start: int, end: int, stamp: int, value: Any) -> Buffer:
        # This and what follows is written out, as it is done for each element.
        if (end if self._is_latest else start) - stamp != buffer.offset:
            value = self._with_stamp(buffer, start, end, stamp, value)
        if start < buffer.since:
            edges, accumulators = block = buffer.blocks[bisect_right(buffer.bounds, start)]
            at = bisect_right(edges, start)
        else:
            edges, accumulators = block = buffer.last
            at = len(edges) - 1
            if at < 0 or (start >= edges[at] and start != edges[at - 1]):
                buffer.append(start, end, buffer.combining.first(value))
                return buffer
            if start < edges[at - 1]:
                at = bisect_right(edges, start)
            elif end > edges[at]:
                edges[at] = end
        if not at & 1:
            return self._join(buffer, block, at, start, end, value)
        if end > edges[at]:
            following = at + 1
            if following == len(edges):
                if block is not buffer.last:
                    return self._join(buffer, block, at, start, end, value)
            elif edges[following] < end:
                if end <= edges[at + 2]:
                    return self._join_next(buffer, block, at, value)
                return self._join(buffer, block, at, start, end, value)
            edges[at] = end
        at >>= 1
        add = buffer.combining.add
        if add is None:
            accumulators[at] += 1
        else:
            accumulators[at] = add(accumulators[at], value)
        return buffer

    def _join_next(self, buffer: Buffer, block: _Block, at: int, value: Any) -> Buffer:
        """Take in an element that makes one of two sessions, of which the first has its start."""
        edges, accumulators = block
        del edges[at : at + 2]
        at >>= 1
        add = buffer.combining.add
        if add is None:
            accumulators[at] += accumulators.pop(at + 1) + 1
        else:
            both = buffer.combining.merge([accumulators[at], accumulators.pop(at + 1)])
            accumulators[at] = add(both, value)
        buffer.count -= 1
        return buffer

    def _join(
        self, buffer: Buffer, block: _Block, at: int, start: int, end: int, value: Any
    ) -> Buffer:
        """Take in an element that may reach several sessions, or none.

        Args:
            at: the number of edges in it that are not behind the element's start.
        """
        (edges, accumulators), low = block, at
        if at & 1:
            at -= 1
        elif at and edges[at - 2] == start:  # A session without length.
            at, low = at - 2, at - 1
        until = bisect_left(edges, end, low, min(low + _NEAR, len(edges)))
        if until == low + _NEAR:
            until = bisect_left(edges, end, until)
        if until == len(edges) and block is not buffer.last:
            edges, accumulators = block = buffer.until(start, end)
            until = bisect_left(edges, end, low)
        first, behind = at >> 1, (until + 1) >> 1
        combining = buffer.combining
        if behind == first:
            edges[at:at] = array("q", (start, end))
            accumulators.insert(first, combining.first(value))
            buffer.count += 1
            buffer.cut(block)
            return buffer
        if start < edges[at]:
            edges[at] = start
        if not until & 1:
            edges[until - 1] = end
        if behind > first + 1:
            accumulators[first:behind] = [combining.merge(accumulators[first:behind])]
            del edges[at + 1 : 2 * behind - 1]
            buffer.count -= behind - first - 1
        add = combining.add
        one = accumulators[first]
        accumulators[first] = one + 1 if add is None else add(one, value)
        return buffer

    def finish(self, buffer: Buffer) -> Iterator[Session]:
        for edges, accumulators in buffer.blocks:
            starts, ends = edges[::2], edges[1::2]
            if buffer.offset is None:
                for start, end, (stamp, one) in zip(starts, ends, accumulators, strict=True):
                    yield Session(start, end, stamp, one)
            else:
                yield from map(Session, starts, ends, self._times(buffer, edges), accumulators)

    def _times(self, buffer: Buffer, edges: MutableSequence[int]) -> Iterator[int]:
        """Yield the timestamps of sessions with which they are not kept."""
        assert buffer.offset is not None
        for edge in edges[self._is_latest :: 2]:
            yield edge - buffer.offset

    def _with_stamp(self, buffer: Buffer, start: int, end: int, stamp: int, value: Any) -> Any:
        """Return the stored form of a value whose timestamp has another offset."""
        if not buffer.count:
            buffer.offset = (end if self._is_latest else start) - stamp
            return value
        if buffer.offset is not None:
            for edges, accumulators in buffer.blocks:
                times = self._times(buffer, edges)
                accumulators[:] = zip(times, accumulators, strict=True)
            buffer.offset, buffer.combining = None, self._stamped
        return stamp, value

    def _first(self, value: Any) -> Any:
        return self._combine_fn.add_input(self._combine_fn.create_accumulator(), value)

    def _first_stamped(self, element: tuple[int, Any]) -> tuple[int, Any]:
        stamp, value = element
        return stamp, self._first(value)

    def _add_stamped(self, known: tuple[int, Any], element: tuple[int, Any]) -> tuple[int, Any]:
        stamp, value = element
        return self._stamps(known[0], stamp), self._combine_fn.add_input(known[1], value)

    def _merge_stamped(self, some: list[tuple[int, Any]]) -> tuple[int, Any]:
        stamp = reduce(self._stamps, (stamp for stamp, _ in some))
        return stamp, self._combine_fn.merge_accumulators([one for _, one in some])

"""Sessions in their order: a place is found by bisection, and two buffers merge in one pass."""

import heapq
from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import apache_beam as beam

from sparkbeam.windows.aggregator import Session, Stamps, in_session, merged

_END, _STAMP, _ACCUMULATOR = 0, 1, 2
_START = itemgetter(0)


class Buffer:
    """The sessions of a key by their start.

    Attributes:
        starts: theirs, ascending.
        rest: of each the end, the timestamp and the accumulator.
    """

    __slots__ = ("rest", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.rest: list[list[Any]] = []

    def __len__(self) -> int:
        return len(self.starts)

    def append(self, start: int, end: int, stamp: int, accumulator: Any) -> None:
        """Adds a session behind all others."""
        self.starts.append(start)
        self.rest.append([end, stamp, accumulator])


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
        starts, rest = buffer.starts, buffer.rest
        is_last = not starts or start >= starts[-1]
        at = len(starts) if is_last else bisect_right(starts, start)
        # As in_session() has it, written out where it is for each element.
        if at and (start < rest[at - 1][_END] or start == starts[at - 1]):
            at -= 1
        elif is_last or not in_session(starts[at], start, end):
            starts.insert(at, start)
            rest.insert(at, [end, stamp, self._add_input(self._create(), value)])
            return buffer
        else:
            starts[at] = start
        session = rest[at]
        if end > session[_END]:
            session[_END] = end
            if not is_last:
                self._join(buffer, at)
        session[_STAMP] = self._stamps(session[_STAMP], stamp)
        session[_ACCUMULATOR] = self._add_input(session[_ACCUMULATOR], value)
        return buffer

    def _join(self, buffer: Buffer, at: int) -> None:
        """Takes those into a session that it has come to reach."""
        starts, rest = buffer.starts, buffer.rest
        session, behind = rest[at], at + 1
        while behind < len(starts) and in_session(starts[behind], starts[at], session[_END]):
            session[_END] = max(session[_END], rest[behind][_END])
            session[_STAMP] = self._stamps(session[_STAMP], rest[behind][_STAMP])
            behind += 1
        if behind > at + 1:
            joined = [some[_ACCUMULATOR] for some in rest[at:behind]]
            session[_ACCUMULATOR] = merged(self._combine_fn, joined)
            del starts[at + 1 : behind], rest[at + 1 : behind]

    def merge(self, left: Buffer, right: Buffer) -> Buffer:
        result = Buffer()
        parts: list[Any] = []
        for session in heapq.merge(self.finish(left), self.finish(right), key=_START):
            if result.starts and in_session(
                session.start, result.starts[-1], result.rest[-1][_END]
            ):
                last = result.rest[-1]
                last[_END] = max(last[_END], session.end)
                last[_STAMP] = self._stamps(last[_STAMP], session.stamp)
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
            buffer.rest[-1][_ACCUMULATOR] = merged(self._combine_fn, parts)

    def finish(self, buffer: Buffer) -> Iterator[Session]:
        for start, rest in zip(buffer.starts, buffer.rest, strict=True):
            yield Session(start, *rest)

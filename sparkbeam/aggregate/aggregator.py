"""Common parts of all ways to combine the sessions of a key.

A key's sessions are a *buffer*. An element is reduced into it, and the sessions are read at the
end. Elements are reduced before a shuffle, and sessions merge behind it, so only one accumulator
per session travels.
"""

from collections.abc import Callable, Iterator, Sized
from typing import Any, NamedTuple, Protocol, TypeVar

import apache_beam as beam

Stamps = Callable[[int, int], int]
"""Combination of two timestamps: ``min`` for the earliest, ``max`` for the latest."""

_Buffer = TypeVar("_Buffer", bound=Sized)


class Session(NamedTuple):
    """Session and its accumulator; times are in microseconds.

    Attributes:
        start, end: of its window, which has no time in common with another one of the key.
        stamp: the combined timestamp of its elements.
    """

    start: int
    end: int
    stamp: int
    accumulator: Any


class Aggregator(Protocol[_Buffer]):
    """Aggregator of the sessions of a key, whose number is the length of their buffer.

    A buffer that was handed over belongs to the aggregator, and may be a part of the result.
    All aggregators give the same sessions, for whatever order of elements.
    """

    def zero(self) -> _Buffer:
        """Return a buffer without sessions."""

    def reduce(self, buffer: _Buffer, start: int, end: int, stamp: int, value: Any) -> _Buffer:
        """Take in an element, with its own window.

        Sessions that it joins are merged first, and its value is added to the one accumulator.

        Args:
            start: the start of the window, in microseconds.
            stamp: the element's timestamp in microseconds.
        """

    def finish(self, buffer: _Buffer) -> Iterator[Session]:
        """Yield the sessions, in order of their start."""


def in_session(next_start: int, start: int, end: int) -> bool:
    """Return whether a session takes in the next one by start; one that touches it stays apart.

    A session to which rounding leaves no length is nevertheless one with the sessions of its start.
    """
    return next_start < end or next_start == start


def merged(combine_fn: beam.CombineFn, accumulators: list[Any]) -> Any:
    """Return the accumulator of sessions that become one."""
    if len(accumulators) == 1:
        return accumulators[0]
    return combine_fn.merge_accumulators(accumulators)

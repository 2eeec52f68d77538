"""A queue that deletes what has been confirmed, and a splittable DoFn that reads it."""

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from positions import Positions

_MOST = 3


class Queue:
    """Messages that are handed out, and are there again if nobody confirms them.

    Attributes:
        committed: tells how many micro-batches have been committed.
        early: how often a message was confirmed before its micro-batch was committed.
    """

    def __init__(self) -> None:
        self.committed: Callable[[], int] = lambda: 0
        self.fill(0)

    def fill(self, messages: int) -> None:
        """Starts with so many messages."""
        self._left = set(range(messages))
        self._out: dict[int, int] = {}
        self.early = 0

    def __len__(self) -> int:
        return len(self._left)

    def pull(self) -> list[int]:
        """Hands out a few messages that nobody has."""
        some = sorted(self._left - self._out.keys())[:_MOST]
        self._out |= dict.fromkeys(some, self.committed())
        return some

    def confirm(self, messages: list[int]) -> None:
        """Deletes messages."""
        for message in messages:
            self.early += self._out.get(message, 0) >= self.committed()
        self._left -= set(messages)

    def time_out(self) -> None:
        """Takes back what has not been confirmed."""
        self._out = {}


QUEUE = Queue()


class ReadQueue(beam.DoFn):
    """Gives messages, and confirms them by a bundle finalizer."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: Any,
        finalizer: Any = beam.DoFn.BundleFinalizerParam,
        tracker: Any = beam.DoFn.RestrictionParam(Positions(1_000_000)),
    ) -> Iterator[int]:
        place = tracker.current_restriction().start
        if not QUEUE:
            tracker.try_claim(999_999)
            return
        if tracker.try_claim(place):
            some = QUEUE.pull()
            yield from some
            finalizer.register(lambda: QUEUE.confirm(some))
            tracker.defer_remainder()

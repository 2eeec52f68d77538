"""A queue that deletes what has been confirmed, and a splittable DoFn that reads it."""

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.transforms.core import RestrictionProvider

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


class Ranges(RestrictionProvider):
    """One restriction, which ends with the queue."""

    def initial_restriction(self, element: Any) -> OffsetRange:
        return OffsetRange(0, 1_000_000)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: Any, restriction: OffsetRange) -> int:
        return 1


class ReadQueue(beam.DoFn):
    """Gives messages, and confirms them by a bundle finalizer."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: Any,
        finalizer: Any = beam.DoFn.BundleFinalizerParam,
        tracker: Any = beam.DoFn.RestrictionParam(Ranges()),
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

"""Partitions that are slow to read get less of a micro-batch, so that the others need not wait."""

import math
import statistics
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sparkbeam.common import arguments
from sparkbeam.eventhubs.monitoring import Watch

_MICRO_BATCHES = 3
_LEAST, _WHOLE = 0.001, 0.99
_LONGEST = 1e6


@dataclass(frozen=True)
class SlowPartitions:
    """Takes less of partitions that are slow to read.

    An event of such a partition takes longer to read than the mean over all by more than a standard
    deviation, over three micro-batches. What a micro-batch takes of it is multiplied by a factor,
    the mean time over its own, until it holds nobody up; the factor recovers in the same way. It
    takes reports of at least half of the partitions, and three partitions.

    Attributes:
        threshold: seconds; a read that takes less is not slow.
        monitor: a function that gets a list of a :class:`.PartitionStatus` of each partition, where
            micro-batches are planned: in a process of Spark's beside the driver. What it raises is
            logged.

    Raises:
        ConfigurationError: that is no duration, or no function.
    """

    threshold: float = 30.0
    monitor: Watch | None = None

    def __post_init__(self) -> None:
        arguments.duration("threshold", self.threshold, "seconds", most=_LONGEST)
        if self.monitor is not None:
            arguments.function("monitor", self.monitor, "use one of a list of PartitionStatus")


@dataclass(frozen=True)
class Read:
    """What a task tells of a range that it has read.

    Attributes:
        number: of the micro-batch, as the planner counts them.
        partition: what was read.
        events: how many.
        seconds: how long it took.
    """

    number: int
    partition: str
    events: int
    seconds: float


class Factors:
    """How much of its share each partition gets, and how long it took to read.

    Args:
        slow: which partitions are slow; None for none.
    """

    def __init__(self, slow: SlowPartitions | None) -> None:
        self._threshold = math.inf if slow is None else slow.threshold
        self._reads: dict[str, deque[Read]] = {}
        self._factors: dict[str, float] = {}
        self._latest = 0
        self._adjusted = 0

    def note(self, read: Read) -> None:
        """Takes a report; of a micro-batch that runs again the last one counts."""
        if read.events <= 0:
            return
        reads = self._reads.setdefault(read.partition, deque(maxlen=_MICRO_BATCHES))
        if reads and reads[-1].number == read.number:
            reads.pop()
        reads.append(read)
        self._latest = max(self._latest, read.number)

    def current(self, partitions: Collection[str]) -> Mapping[str, float]:
        """The factors of those partitions that have one below 1."""
        if self._latest > self._adjusted:
            self._adjusted = self._latest
            self._adjust(partitions)
        return self._factors

    def last(self, partition: str) -> Read | None:
        """The last report of a partition."""
        reads = self._reads.get(partition)
        return reads[-1] if reads else None

    def _adjust(self, partitions: Collection[str]) -> None:
        recent = {
            partition: reads for partition in partitions if (reads := self._recent(partition))
        }
        if not recent or 2 * len(recent) < len(partitions):
            return
        times = {
            partition: self._factors.get(partition, 1.0)
            * sum(read.seconds for read in reads)
            / sum(read.events for read in reads)
            for partition, reads in recent.items()
        }
        mean = statistics.fmean(times.values())
        deviation = statistics.pstdev(times.values(), mean)
        for partition, own in times.items():
            factor = self._factors.get(partition, 1.0)
            longest = max(read.seconds for read in recent[partition])
            is_slow = own > mean + deviation and longest >= self._threshold
            if is_slow or (factor < 1 and own < mean):
                self._set(partition, factor * mean / own if own > 0 else 1.0)

    def _recent(self, partition: str) -> list[Read]:
        first = self._latest - _MICRO_BATCHES
        return [read for read in self._reads.get(partition, ()) if read.number > first]

    def _set(self, partition: str, factor: float) -> None:
        if factor >= _WHOLE:
            self._factors.pop(partition, None)
        else:
            self._factors[partition] = max(_LEAST, factor)

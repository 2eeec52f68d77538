"""Detection of partitions that are slow to read, for a smaller share of micro-batches."""

import math
import statistics
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pyspark_eventhubs import checks
from pyspark_eventhubs.monitoring import Watch

_MICRO_BATCHES = 3
_LEAST, _WHOLE = 0.001, 0.99


@dataclass(frozen=True)
class SlowPartitions:
    """Settings to reduce the share of partitions that are slow to read.

    A partition is slow if reading an event takes longer than the mean over all by more than a
    standard deviation, over three micro-batches. Its share of a micro-batch is multiplied by a
    factor, the mean time over its own, until it delays no other; the factor recovers in the same
    way. This requires reports of at least half of the partitions, and three partitions.

    Attributes:
        threshold: seconds; faster reads are never slow.
        monitor: a function that receives a list with a :class:`.PartitionStatus` of each partition,
            in the planning process: a process of Spark's beside the driver. Its exceptions are
            logged.

    Raises:
        ValueError: the threshold is not a duration, or the monitor is not a function.
    """

    threshold: float = 30.0
    monitor: Watch | None = None

    def __post_init__(self) -> None:
        checks.seconds("threshold", self.threshold)
        if self.monitor is not None and not callable(self.monitor):
            raise ValueError(
                f"monitor={checks.shown(self.monitor)} must be a function: use a function of a "
                "list of PartitionStatus."
            )


@dataclass(frozen=True)
class RangeRead:
    """A task's report of a range that it has read.

    Attributes:
        number: the planner's number of the micro-batch.
    """

    number: int
    partition: str
    events: int
    seconds: float


class Factors:
    """Factors of the partitions' shares, and durations of reads.

    Args:
        slow: the settings of slow partitions; None to detect none.
    """

    def __init__(self, slow: SlowPartitions | None) -> None:
        self._threshold = math.inf if slow is None else slow.threshold
        self._reads: dict[str, deque[RangeRead]] = {}
        self._factors: dict[str, float] = {}
        self._latest = 0
        self._adjusted = 0

    def record(self, read: RangeRead) -> None:
        """Record a report; for a repeated micro-batch the last one counts."""
        if read.events <= 0:
            return
        reads = self._reads.setdefault(read.partition, deque(maxlen=_MICRO_BATCHES))
        if reads and reads[-1].number == read.number:
            reads.pop()
        reads.append(read)
        self._latest = max(self._latest, read.number)

    def current(self, partitions: Collection[str]) -> Mapping[str, float]:
        """Return the factors below 1 of partitions."""
        if self._latest > self._adjusted:
            self._adjusted = self._latest
            self._adjust(partitions)
        return self._factors

    def last(self, partition: str) -> RangeRead | None:
        """Return the last report of a partition."""
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

    def _recent(self, partition: str) -> list[RangeRead]:
        first = self._latest - _MICRO_BATCHES
        return [read for read in self._reads.get(partition, ()) if read.number > first]

    def _set(self, partition: str, factor: float) -> None:
        if factor >= _WHOLE:
            self._factors.pop(partition, None)
        else:
            self._factors[partition] = max(_LEAST, factor)

"""Status of a partition of an event hub, known to its source and to displays of a pipeline."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PartitionStatus:
    """A partition when a micro-batch is planned.

    Attributes:
        partition: its number.
        lag: the number of events left in the partition behind the micro-batch.
        factor: the fraction of its share that the micro-batch reads; below 1 for a slow partition.
        events: the number of events in the last reported read; 0 before the first.
        seconds: the duration of that read.
    """

    partition: int
    lag: int
    factor: float = 1.0
    events: int = 0
    seconds: float = 0.0

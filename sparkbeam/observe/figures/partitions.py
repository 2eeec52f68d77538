"""Progress of a partition of an event hub, for processes without Beam too."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PartitionProgress:
    """A partition of an event hub when a micro-batch was planned.

    Attributes:
        partition: its number.
        lag: the number of events left in the partition behind the micro-batch.
        factor: the fraction of its share that the micro-batch reads; below 1 for a slow partition.
        events: the number of events in the last reported read; 0 before the first.
        seconds: the duration of that read.
        step: the label of the transform that reads it.
    """

    partition: int
    lag: int
    factor: float = 1.0
    events: int = 0
    seconds: float = 0.0
    step: str = ""

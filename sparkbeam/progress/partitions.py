"""The partitions of event hubs, as the process that plans them tells, which knows no Beam."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparkbeam.common.untrusted_json import text, whole


@dataclass(frozen=True)
class PartitionProgress:
    """A partition of an event hub when a micro-batch was planned.

    Attributes:
        step: the label of the transform that reads it.
        partition: its number.
        lag: how many events are left in the hub behind the micro-batch.
        factor: how much of its share the micro-batch takes; below 1 for a slow partition.
        events: how many the last reading had that a task has told of; 0 before the first.
        seconds: how long that took.
    """

    step: str
    partition: int
    lag: int
    factor: float = 1.0
    events: int = 0
    seconds: float = 0.0


def partition_of(values: Sequence[Any]) -> PartitionProgress:
    """A partition, of whatever somebody has written; raises ``ValueError`` or ``TypeError``."""
    found = PartitionProgress(*values)
    text(found.step)
    for number in (found.partition, found.lag, found.events):
        whole(number)
    for amount in (found.factor, found.seconds):
        if type(amount) not in (int, float):
            raise ValueError("this is no number")
    return found

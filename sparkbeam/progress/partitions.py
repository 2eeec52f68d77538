"""Partitions of event hubs as reported by the planning process, independent of Beam."""

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
        lag: the number of events left in the partition behind the micro-batch.
        factor: the fraction of its share that the micro-batch reads; below 1 for a slow partition.
        events: the number of events in the last reported read; 0 before the first.
        seconds: the duration of that read.
    """

    step: str
    partition: int
    lag: int
    factor: float = 1.0
    events: int = 0
    seconds: float = 0.0


def partition_of(values: Sequence[Any]) -> PartitionProgress:
    """Parse a partition from untrusted values; malformed ones raise an error.

    Raises:
        ValueError: a number is malformed.
        TypeError: a value has the wrong type.
    """
    found = PartitionProgress(*values)
    text(found.step)
    for number in (found.partition, found.lag, found.events):
        whole(number)
    for amount in (found.factor, found.seconds):
        if type(amount) not in (int, float):
            raise ValueError("not a number")
    return found

"""In which order a micro-batch hands the partitions of a hub to Spark.

A data source in Python cannot name executors. Spark starts tasks in the order of their partitions
where slots are free, so the order is all that there is: of as many places as there are slots, each
gets one partition in turn.
"""

import hashlib
from collections import deque
from collections.abc import Sequence
from typing import TypeVar

BALANCED, HASH = "balanced", "hash"
PLACEMENTS = (BALANCED, HASH)

T = TypeVar("T")


def place(hub: str, partition: str, places: int, placement: str) -> int:
    """The place of a partition, the same in each micro-batch and run.

    Args:
        hub: the event hub.
        partition: its id.
        places: how many there are.
        placement: ``balanced``: the partitions of a hub are on as many places as they can be, and
            those of different hubs begin at different ones; ``hash``: each is anywhere.
    """
    if placement == BALANCED:
        return (_hash(hub) + int(partition)) % places
    return _hash(f"{hub}/{partition}") % places


def _hash(text: str) -> int:
    """The same in each process, as that of Python is not."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def in_turn(placed: Sequence[tuple[int, T]]) -> list[T]:
    """What is placed, so that each place gets one after the other.

    Args:
        placed: the place of each, and what it is.
    """
    waiting: dict[int, deque[T]] = {}
    for number, item in placed:
        waiting.setdefault(number, deque()).append(item)
    queues = [waiting[number] for number in sorted(waiting)]
    found = []
    while any(queues):
        found += [queue.popleft() for queue in queues if queue]
    return found

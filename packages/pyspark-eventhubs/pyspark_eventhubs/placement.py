"""Order in which the partitions of a micro-batch are handed to Spark.

Python data sources cannot select executors. Spark starts tasks in the order of their partitions on
free slots, so only the order can be controlled: each of as many places as there are slots gets one
partition in turn.
"""

import hashlib
from collections import deque
from collections.abc import Sequence
from typing import TypeVar

BALANCED, HASH = "balanced", "hash"
PLACEMENTS = (BALANCED, HASH)

T = TypeVar("T")


def place(hub: str, partition: str, places: int, placement: str) -> int:
    """Return the place of a partition, which is the same in each micro-batch and run.

    Args:
        placement: ``balanced``: the partitions of a hub are spread evenly over the places, starting
            at a different place for each hub; ``hash``: each partition is placed independently.
    """
    if placement == BALANCED:
        return (_hash(hub) + int(partition)) % places
    return _hash(f"{hub}/{partition}") % places


def _hash(text: str) -> int:
    """Return a hash that is equal in all processes, unlike Python's."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def in_turn(placed: Sequence[tuple[int, T]]) -> list[T]:
    """Order items so that each place gets one in turn.

    Args:
        placed: each item with its place.
    """
    waiting: dict[int, deque[T]] = {}
    for number, item in placed:
        waiting.setdefault(number, deque()).append(item)
    queues = [waiting[number] for number in sorted(waiting)]
    found = []
    while any(queues):
        found += [queue.popleft() for queue in queues if queue]
    return found

"""State that stays until its window expires, and the number of keys that there are in a state."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import StrUtf8Coder
from apache_beam.transforms.userstate import BagStateSpec
from in_process import Checkpoint

from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.state.store import MemoryMap


class Remembering(beam.DoFn):
    """Keeps each element in the state of its key and window."""

    KEPT = BagStateSpec("kept", StrUtf8Coder())

    def process(
        self, element: tuple[str, str], kept: Any = beam.DoFn.StateParam(KEPT)
    ) -> Iterator[None]:
        kept.add(element[1])
        yield from ()


def keys(checkpoint: Checkpoint) -> int:
    """Return the number of keys with state, in all stages and shards."""
    count = 0
    for entries in checkpoint.state.values():
        stored = MemoryMap()
        stored.entries = dict(entries)
        shard = ShardState(stored)
        count += sum(shard.stage(name).size[0] for name in shard._roots)
    return count

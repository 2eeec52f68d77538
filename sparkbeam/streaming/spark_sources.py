"""Spark's sources in a streaming query, and their watermarks.

The rows of a micro-batch are encoded where they are read and join the ticks before the
first layer. What was seen of them gets to the sink, and by the feedback to the next tick.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from sparkbeam.io import frames
from sparkbeam.plan.model import Source
from sparkbeam.plan.sparkio import ReadSpec
from sparkbeam.worker.sparkrows import StreamedRows
from sparkbeam.worker.streaming.rows import DDL, Seen


def source_rows(session: Any, source: Source, *, shard: int, depth: int) -> Any:
    """The rows of a source as those of the query.

    Args:
        session: that of the query.
        source: what to read.
        shard: the number of any shard.
        depth: the number of layers.
    """
    spec = ReadSpec.unpack(source.payload)
    ((_, tag),) = source.outputs
    task = StreamedRows(source.label, spec, tag, shard, depth)
    return frames.timed(session, spec, streaming=True).mapInArrow(task, DDL)


def newest_seen(seen: Iterable[Seen]) -> Mapping[str, int]:
    """The latest timestamp of each source in a micro-batch, by its tag as JSON has it."""
    newest: dict[str, int] = {}
    for part in seen:
        tag = str(part.tag)
        newest[tag] = max(newest.get(tag, part.newest), part.newest)
    return newest

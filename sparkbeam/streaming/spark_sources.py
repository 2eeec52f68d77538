"""Spark's sources in a streaming query, and their watermarks.

The first layer runs where the rows of a micro-batch are read. What was seen of them gets to
the sink, and by the feedback to the next tick.
"""

from typing import Any

from sparkbeam.io import frames
from sparkbeam.plan.model import Source
from sparkbeam.plan.sparkio import ReadSpec
from sparkbeam.worker.streaming.layer import LayerTask
from sparkbeam.worker.streaming.operators import RowsLayer
from sparkbeam.worker.streaming.rows import DDL


def source_rows(session: Any, source: Source, first: LayerTask, partitions: int) -> Any:
    """What the first layer makes of the rows of a source.

    Args:
        session: that of the query.
        source: what to read.
        first: the task of the layer.
        partitions: of a source that does not know itself how many it has.
    """
    spec = ReadSpec.unpack(source.payload)
    ((_, tag),) = source.outputs
    layer = RowsLayer(first, source.label, spec, tag)
    return frames.timed(session, spec, source.label, partitions).mapInArrow(layer, DDL)

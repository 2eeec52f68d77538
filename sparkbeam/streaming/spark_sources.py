"""Spark's sources in a streaming query, and their watermarks.

The first layer runs where the rows of a micro-batch are read. Its observations are passed to the
sink, and in the feedback to the next tick.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from sparkbeam.common.untrusted_json import loaded
from sparkbeam.connectors import source_frames
from sparkbeam.connectors.kafka_starts import started
from sparkbeam.observe.collection.listener import reachable_at
from sparkbeam.plan.model import Source
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.spark.session import cores
from sparkbeam.streaming.batch_limits import split_long_values
from sparkbeam.streaming.checkpoint_files import Files, files, next_epoch, stored_places
from sparkbeam.streaming.exhausted_partitions import ExhaustedPartitions
from sparkbeam.streaming.feedback import FeedbackFiles
from sparkbeam.streaming.kafka_topics import check_topics
from sparkbeam.wire.messages import DDL
from sparkbeam.worker.streaming.spark_operators import RowsLayer
from sparkbeam.worker.streaming.tasks import LayerTask


@dataclass(frozen=True)
class TickTime:
    """Lookup of the tick time of a micro-batch in Spark's offset log.

    It is the timestamp of rows without one. Spark's own time of a micro-batch follows the machine's
    clock backwards, and rows behind the watermark would be late.

    Attributes:
        checkpoint: the checkpoint location.
    """

    checkpoint: str

    def __call__(self, batch: int) -> int | None:
        """Return the time in microseconds; None if the checkpoint cannot be read from here."""
        try:
            ticks, *_ = FeedbackFiles(files(self.checkpoint)).offsets(batch + 1) or [""]
            time: int = loaded(ticks)["time"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return time


@dataclass(frozen=True)
class SourceFrame:
    """A Spark source in a query.

    Attributes:
        label: of the transform that reads it.
        tag: of the port of its rows.
        spec: of the source.
        frame: its rows.
        checkpoint: of the query.
    """

    label: str
    tag: int
    spec: ReadSpec
    frame: Any
    checkpoint: str

    @property
    def has_plan(self) -> bool:
        """True for an arbitrary Spark plan, with its own sources, watermarks and state."""
        return not self.spec.format

    def through(self, first: LayerTask) -> Any:
        """Return a DataFrame of the first layer's output for the rows."""
        time = TickTime(self.checkpoint) if self.spec.timestamp_column is None else None
        layer = RowsLayer(first, self.label, self.spec, self.tag, time)
        rows = split_long_values(self.frame) if first.in_pieces else self.frame
        return rows.mapInArrow(layer, DDL)


def source_frame(
    session: Any,
    source: Source,
    number: int,
    partitions: int,
    checkpoint: str,
    kept: Files,
    *,
    freezes: bool = False,
) -> SourceFrame:
    """Return the frame of a source.

    Args:
        session: of the query.
        source: the source.
        number: of the source among those of the query, from 0.
        partitions: the number of partitions of a source that does not define it.
        checkpoint: of the query.
        kept: the files under it.
        freezes: an event hub ends with the events that are there at the start.
    """
    spec = ReadSpec.unpack(source.payload)
    ((_, tag),) = source.outputs
    if spec.is_own:
        spec = _of_hub(spec, session, ExhaustedPartitions(checkpoint, tag), kept, freezes=freezes)
    if spec.format.lower() == "kafka":
        check_topics(spec, source.label, number, kept)
    if not FeedbackFiles(kept).offsets(1):  # Otherwise Spark starts at its own offsets.
        spec = started(spec, source.label)
    frame = source_frames.timed(session, spec, source.label, partitions)
    return SourceFrame(source.label, tag, spec, frame, checkpoint)


def _of_hub(
    spec: ReadSpec, session: Any, ends: ExhaustedPartitions, kept: Files, *, freezes: bool
) -> ReadSpec:
    """Complete the read of an event hub at the start of its query."""
    # Older versions of PySpark have no Python data sources.
    from sparkbeam.streaming import hub_source

    session.dataSource.register(hub_source.PipelineHubSource)
    noted = [hub_source.PARTITIONS, *([] if spec.idle is None else [hub_source.ENDS])]
    options = (*spec.options, *((name, ends.text()) for name in noted), *_of_run(session, kept))
    if freezes:
        options = (*options, (hub_source.FREEZES, "true"))
    return replace(spec, options=options, is_own=False)


def _of_run(session: Any, kept: Files) -> Iterator[tuple[str, str]]:
    """Yield the options of this package's sources that are known when the query starts."""
    from sparkbeam.eventhubs.source_options import EPOCH, PLACES, REPORT_BIND, REPORT_HOST

    yield EPOCH, str(next_epoch(kept))
    yield PLACES, str(stored_places(kept, cores(session)))
    with suppress(Exception):  # Optional.
        reachable = reachable_at(session)
        if reachable is not None:
            host, bind = reachable
            yield REPORT_HOST, host
            yield REPORT_BIND, bind

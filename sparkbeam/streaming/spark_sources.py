"""Spark's sources in a streaming query, and their watermarks.

The first layer runs where the rows of a micro-batch are read. Its observations are passed to the
sink, and in the feedback to the next tick.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sparkbeam.common.untrusted_json import loaded
from sparkbeam.connectors import source_frames
from sparkbeam.connectors.hook_errors import hook_errors
from sparkbeam.connectors.storage import FILE_FORMATS, from_here, local_path
from sparkbeam.plan.model import Source
from sparkbeam.plan.source_hooks import QueryStart
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.spark import session as sessions
from sparkbeam.streaming.checkpoint_files import Files, files
from sparkbeam.streaming.feedback import FeedbackFiles
from sparkbeam.streaming.source_news import Connect, FolderChanges
from sparkbeam.upstream.scans import hadoop_setting
from sparkbeam.wire.messages import DDL
from sparkbeam.worker.streaming.spark_operators import RowsLayer
from sparkbeam.worker.streaming.tasks import LayerTask

_MOST_IN_ORDER = 4
"""The number of sources, with that of the ticks, up to which Spark asks them in order."""


@dataclass(frozen=True)
class TickTime:
    """Lookup of the tick time of a micro-batch in Spark's offset log.

    It is the timestamp of rows without one. Spark's own time of a micro-batch follows the machine's
    clock backwards, and rows behind the watermark would be late.
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
    """A Spark source in a query."""

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
        layer = RowsLayer(first, self.label, self.spec.of_workers(), self.tag, time)
        return self.frame.mapInArrow(layer, DDL)


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
        number: of the source among those of the query, from 0.
        partitions: the number of partitions of a source that does not define it.
        freezes: a source that can ends with the rows that are there at the start.
    """
    spec = source.read
    assert spec is not None
    ((_, tag),) = source.outputs
    start = QueryStart(session, checkpoint, kept, tag, spec.idle is not None, freezes)
    with hook_errors(spec, source.label):
        spec = spec.with_options(spec.hooks.query_options(start))
    check_checkpoint(spec, source.label, number, kept)
    feedback = FeedbackFiles(kept)
    if not (feedback.offsets(1) or feedback.last_written()):  # Else Spark has offsets of its own.
        spec = source_frames.started(spec, source.label)
    frame = source_frames.timed(session, spec, source.label, partitions)
    return SourceFrame(source.label, tag, spec, frame, checkpoint)


def connects(session: Any, sources: Sequence[SourceFrame]) -> tuple[Connect, ...]:
    """Return connections for news of all sources of a query; none if one can tell only Spark.

    Spark asks the tick source first, but more than four sources in any order: then the rows that
    end its wait may not be in the micro-batch that follows.
    """
    found = [each for source in sources if (each := _connect(session, source.spec)) is not None]
    return tuple(found) if len(found) == len(sources) < _MOST_IN_ORDER else ()


def _connect(session: Any, spec: ReadSpec) -> Connect | None:
    """Return a connection for news of a source; None if it can tell only Spark."""
    if spec.format.lower() not in FILE_FORMATS:
        # Such rows may have to wait for others, and are then read without news.
        is_known = spec.hooks.checks_offsets and not spec.option("minoffsetspertrigger")
        return spec.hooks.connect if is_known else None
    folder = local_path(from_here(spec.option("path"), spec.format, session))
    is_here = sessions.is_local(session) and hadoop_setting(session, "fs.defaultFS") == "file:///"
    return partial(FolderChanges, str(folder)) if folder and folder.is_dir() and is_here else None


def check_checkpoint(spec: ReadSpec, label: str, number: int, kept: Files) -> None:
    """Check that a source can continue the checkpoint.

    Args:
        number: of the source among those of the query, from 0.

    Raises:
        PipelineFailed: it has other rows than when the checkpoint was written.
    """
    if not spec.hooks.checks_offsets:
        return
    feedback = FeedbackFiles(kept)
    offsets = feedback.partition_offsets(feedback.last_written()).get(number, {})
    name = f"sources/{spec.format.lower()}/{number}.json"
    before = kept.read(name) if offsets else None
    with hook_errors(spec, label):
        notes = spec.hooks.check_checkpoint(label, offsets, before)
    if notes is not None:
        kept.write(name, notes)

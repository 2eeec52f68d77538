"""Health of the pipeline of a checkpoint, seen from another process."""

import math
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from apache_beam.io.filesystems import FileSystems

from sparkbeam.common.display_text import line
from sparkbeam.observe.collection.stream_tracker import in_seconds, query_progress
from sparkbeam.observe.figures import phases
from sparkbeam.observe.figures.formats import duration, iso_time, joined
from sparkbeam.observe.figures.micro_batch import MicroBatch
from sparkbeam.observe.figures.progress import (
    StageProgress,
    StageState,
    StreamingProgress,
    backlog,
    slowest,
    streaming_texts,
)
from sparkbeam.observe.figures.rates import is_long_ago
from sparkbeam.streaming.checkpoint_files import LocalFiles, absolute, files, not_read
from sparkbeam.streaming.execution import check_pipeline, known_pipeline
from sparkbeam.streaming.feedback import FeedbackFiles
from sparkbeam.streaming.generation import newest
from sparkbeam.streaming.heartbeat import Heartbeat, last_sign

_LONG = 60.0
_LONGER = 10
_START = 600.0
"""The longest that a start may take, up to the first commit, in seconds."""

_SECOND = 1e6


class Health(StrEnum):
    """Health of a pipeline."""

    RUNNING = "running"
    """A micro-batch is under way."""

    STARTING = "starting"
    """The program has started and not yet committed a micro-batch."""

    IDLE = "idle"
    """Everything is committed, and nothing is due."""

    FINISHED = "finished"
    """Nothing is left to do, permanently."""

    DRAINED = "drained"
    """Its sources were told to end and nothing is left to do; the checkpoint is used up."""

    STUCK = "stuck"
    """A micro-batch has not been committed or started for a long time."""

    BEHIND = "behind"
    """The lag exceeds its limit."""

    FAILED = "failed"
    """The last run failed."""

    STOPPED = "stopped"
    """The last run was cancelled."""

    GONE = "gone"
    """The program has stopped sending heartbeats without announcing its end."""


@dataclass(frozen=True)
class PipelineStatus:
    """Status of a streaming pipeline from its checkpoint; times are in seconds.

    Attributes:
        draining: it was told to end its sources.
        progress: at the end of the last committed micro-batch, with known phases; its lag is
            None once the pipeline is over.
        since: the age of that micro-batch; None before the first.
        pending: how long the current micro-batch has been under way since the program started;
            None without one.
        overdue: how long a timer in processing time has been due since then; None if none is.
        starting: the time since the start, up to the first commit; None later, or if unknown.
        sign: the last heartbeat of the program; None if unknown or older than the last micro-batch.
        generation: the number of starts of a driver over the checkpoint; 0 if unknown.
    """

    health: Health
    draining: bool = False
    progress: StreamingProgress = field(default_factory=StreamingProgress)
    since: float | None = None
    pending: float | None = None
    overdue: float | None = None
    starting: float | None = None
    addresses: tuple[str, ...] = ()
    sign: Heartbeat | None = None
    generation: int = 0

    @property
    def is_over(self) -> bool:
        """True if nothing is left to do, permanently."""
        return self.health in (Health.FINISHED, Health.DRAINED)

    @property
    def is_well(self) -> bool:
        """True if it makes progress or is over."""
        return self.is_over or self.health in (Health.STARTING, Health.RUNNING, Health.IDLE)

    def content(self) -> dict[str, Any]:
        """Return the contents as JSON values."""
        progress = self.progress
        return {
            "health": str(self.health),
            "error": "" if self.sign is None else self.sign.error,
            "draining": self.draining,
            "generation": self.generation,
            "micro_batch": progress.micro_batch,
            "since_seconds": _rounded(self.since),
            "batch_seconds": _rounded(progress.batch_seconds),
            "phases_seconds": dict(progress.phases),
            "lag_seconds": _rounded(progress.lag_seconds),
            "pending_seconds": _rounded(self.pending),
            "overdue_seconds": _rounded(self.overdue),
            "starting_seconds": _rounded(self.starting),
            "steps": [step_content(step) for step in progress.stages],
            "partitions": [asdict(partition) for partition in progress.partitions],
        }

    def lines(self) -> Iterator[str]:
        """Yield the contents as lines of printable text."""
        return map(line, self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.health}{', draining' * self.draining}: {joined(*self._headline())}"
        if self.sign is not None and self.sign.error:
            first, *_ = self.sign.error.strip().split("\n", 1)
            yield f"  {first}"
        if self.progress.phases:
            yield f"  {phases.in_words(self.progress.phases)}"
        for stage in self.progress.stages:
            texts = streaming_texts(stage)
            elements, mark = f"{texts['elements']} elements", f"watermark {texts['watermark']}"
            figures = joined(elements, mark, texts["held"], texts["state"], texts["late"])
            yield f"  {stage.name}: {figures}"

    def _headline(self) -> Iterator[str]:
        progress = self.progress
        if self.since is None:
            yield "no micro-batch has been committed"
        else:
            yield (
                f"micro-batch {progress.micro_batch} was committed {duration(self.since)} ago, "
                f"after {duration(progress.batch_seconds)}"
            )
        if self.starting is not None:
            yield f"the program started {duration(self.starting)} ago"
        if self.pending is not None:
            yield f"the next one has been running for {duration(self.pending)}"
        if self.overdue is not None:
            yield f"the next one was due {duration(self.overdue)} ago"
        if progress.lag_seconds is not None:
            yield f"{duration(progress.lag_seconds)} behind"
        left = backlog(progress.partitions)
        yield f"{left} left to read" if left else ""
        yield slowest(progress.partitions)


def status(
    location: str,
    *,
    max_lag: float | None = None,
    patience: float | None = None,
    now: float | None = None,
) -> PipelineStatus:
    """Read the status from a checkpoint without changing it.

    Args:
        location: the checkpoint location, visible to this process.
        max_lag: the longest accepted lag, in seconds; None for any.
        patience: the seconds that a micro-batch may take, or be overdue, before the pipeline counts
            as stuck; None for a minute, or ten times the duration of the last one if that is
            longer. Up to the first one after a start it has ten minutes.
        now: the time in seconds since the epoch; None for the clock's.

    Raises:
        ConfigurationError: there is no checkpoint of a pipeline.
        CheckpointFailed: one of its files is damaged.
    """
    now = time.time() if now is None else now
    checkpoint = absolute(location)
    known, pipeline = known_pipeline(checkpoint)
    check_pipeline(known, pipeline)
    files = FeedbackFiles(known)
    planned, committed = last_entry(checkpoint, "offsets"), last_entry(checkpoint, "commits")
    last = files.last_number()  # Its sinks have everything; Spark's commit no longer matters.
    number = 0 if committed is None else files.tick_of(committed[0])
    number = number if last is None else last
    found = files.read(number) if number else None
    batch = None if found is None else MicroBatch.readable(found.summary)
    if found is not None and found.summary and batch is None:
        raise files.damage(found.number)
    sign, ended = last_sign(known), None if batch is None else batch.ended / _SECOND
    sign = sign if sign is None or ended is None or sign.is_of(ended) else None
    progress = _progress(files, number, batch, sign, now)
    draining, pending, overdue = files.is_to_drain(), None, None
    started = 0.0 if sign is None or sign.over else sign.started
    is_first = started > (ended or 0.0)
    if last is not None:
        progress = replace(progress, lag_seconds=None)
    elif planned is not None and (committed is None or planned[0] > committed[0]):
        pending = max(0.0, now - max(planned[1], started))
    elif found is not None and found.due is not None and found.due / _SECOND < now:
        # A run that has ended in order leaves what is due to the next one.
        is_over = sign is not None and sign.over
        overdue = None if is_over else max(0.0, now - max(found.due / _SECOND, started))
    is_first &= last is None and (found is None or pending is not None or overdue is not None)
    over = Health.DRAINED if draining else Health.FINISHED
    judged = PipelineStatus(
        health=over if last is not None else Health.IDLE if pending is None else Health.RUNNING,
        draining=draining and last is None,
        progress=progress,
        since=None if ended is None else max(0.0, now - ended),
        pending=pending,
        overdue=overdue,
        starting=max(0.0, now - started) if is_first else None,
        addresses=() if batch is None else tuple(batch.stages),
        sign=sign,
        generation=newest(known),
    )
    problem = None if last is not None else _problem(judged, now, max_lag, patience)
    return judged if problem is None else replace(judged, health=problem)


def _problem(
    status: PipelineStatus, now: float, max_lag: float | None, patience: float | None
) -> Health | None:
    """Return the problem of a pipeline that is not over, or None."""
    sign = status.sign
    if sign is not None and sign.over and sign.state in _ENDINGS:
        return _ENDINGS[sign.state]
    if sign is not None and sign.gone(now) is not None:
        return Health.GONE
    if patience is None:
        patience = max(_LONG, _LONGER * status.progress.batch_seconds)
    if status.starting is not None:
        patience = max(patience, _START)
    if max(status.pending or 0.0, status.overdue or 0.0) > patience:
        return Health.STUCK
    if status.starting is not None and status.starting < patience:
        return Health.STARTING
    is_behind = max_lag is not None and (status.progress.lag_seconds or 0.0) > max_lag
    # A program that has just started may not have had the time to commit anything yet.
    started = 0.0 if sign is None or sign.over else sign.started
    is_new = now - started < min(_LONG, math.inf if status.since is None else status.since)
    return Health.BEHIND if is_behind and not is_new else None


def _progress(
    files: FeedbackFiles,
    number: int,
    batch: MicroBatch | None,
    sign: Heartbeat | None,
    now: float,
) -> StreamingProgress:
    """Return the progress of a query at the end of a micro-batch."""
    if batch is None:
        return StreamingProgress(micro_batch=number)
    names = {id: batch.names.get(id, id) for id in batch.stages}
    recent = [*_before(files, number, batch), batch]
    progress = replace(query_progress(recent, names, now, StageState.RUNNING), micro_batch=number)
    # The feedback lacks Spark's part of the phases.
    timed, phases = (0, {}) if sign is None else sign.phases
    return replace(progress, phases=in_seconds(phases)) if timed == batch.number else progress


_ENDINGS = {"FAILED": Health.FAILED, "CANCELLED": Health.STOPPED}


def _before(files: FeedbackFiles, number: int, batch: MicroBatch) -> list[MicroBatch]:
    """Return the known preceding micro-batches over which rates are computed."""
    found: list[MicroBatch] = []
    while not (found and is_long_ago(found[0], batch)):
        earlier = stored_batch(files, number - len(found) - 1)
        if earlier is None:
            break
        found.insert(0, earlier)
    return found


def stored_batch(files: FeedbackFiles, number: int) -> MicroBatch | None:
    """Return the stored figures of a micro-batch; None if they are missing or damaged."""
    feedback = files.readable(number)
    return None if feedback is None else MicroBatch.readable(feedback.summary)


def last_entry(checkpoint: str, folder: str) -> tuple[int, float] | None:
    """Return the last entry in one of Spark's logs: its number, and when it was written."""
    entries = [
        (int(name), changed)
        for name, changed in _entries(checkpoint, folder)
        if re.fullmatch("[0-9]{1,18}", name)
    ]
    return max(entries, default=None)


def _entries(checkpoint: str, folder: str) -> Iterator[tuple[str, float]]:
    """Yield names and times of the files in a folder under a checkpoint."""
    known = files(checkpoint)
    if isinstance(known, LocalFiles):
        path = Path(known.path("")).parent / folder
        try:
            entries = [*path.iterdir()] if path.is_dir() else []
        except OSError as error:
            raise not_read(str(path), error.strerror or error) from error
        for entry in entries:
            with suppress(OSError):  # Spark removes old ones concurrently.
                yield entry.name, entry.stat().st_mtime
        return
    (found,) = FileSystems.match([f"{checkpoint.rstrip('/')}/{folder}/*"])
    for entry in found.metadata_list:
        yield entry.path.rpartition("/")[2], entry.last_updated_in_seconds


def step_content(step: StageProgress) -> dict[str, Any]:
    """Return the figures of a step as JSON values."""
    return {
        "name": step.name,
        "elements": step.elements,
        "busiest_elements": step.busiest,
        "input_watermark": iso_time(step.input_watermark),
        "output_watermark": iso_time(step.output_watermark),
        "held_seconds": _rounded(step.held_seconds),
        "keys": step.keys,
        "state_bytes": step.state_bytes,
        "dropped_late": step.dropped_late,
        "holder": None
        if step.holder is None
        else {
            "key": step.holder.key,
            "what": step.holder.what,
            "until": iso_time(step.holder.until),
            "step": step.holder.step,
        },
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)

"""Figures of a running pipeline and their texts, for programs and for all views."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape
from typing import TypeAlias

from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp

from sparkbeam.common.display_text import line
from sparkbeam.observe.figures.formats import counted, duration, joined, moment, size
from sparkbeam.observe.figures.partitions import PartitionProgress
from sparkbeam.observe.figures.tables import table_html

_SECOND = 1e6


class StageState(StrEnum):
    """The state of a stage, or of a whole streaming pipeline."""

    WAITING = "waiting"
    """No task has started."""

    RUNNING = "running"
    """Tasks have started, and more may come."""

    DONE = "done"
    """All its tasks have succeeded."""

    FAILED = "failed"
    """The pipeline has failed, and a task of this stage had failed before."""

    STOPPED = "stopped"
    """The pipeline has failed or was cancelled while the stage ran."""


@dataclass(frozen=True)
class WatermarkHolder:
    """The oldest of a stage's state that holds back its output watermark.

    Attributes:
        key: the abbreviated ``repr`` of its key.
        what: ``timer``, ``window``, or ``state`` for others.
        until: the time when the hold ends, in event time or, for a processing-time timer, in
            processing time; None if unknown.
        step: the label of the step that owns the state; empty if unknown.
    """

    key: str
    what: str
    until: Timestamp | None
    step: str = ""


@dataclass(frozen=True)
class StageProgress:
    """A stage of fused transforms, in batch or at the end of a micro-batch.

    Attributes from ``input_watermark`` to ``holder`` are of a streaming pipeline, and those from
    ``tasks_started`` on of a batch; in the other they have their defaults.

    Attributes:
        name: the labels of the user's transforms.
        state: the state of the stage; in streaming that of the pipeline.
        elements: the number of input elements; in streaming since the first start of the query.
        busiest: the number of elements in the largest PCollection of the stage. For a stage that
            reads files, whose input is a few ranges, this measures the elements read.
        per_second: the elements per second in that PCollection, on average; in streaming over the
            last micro-batches.
        input_watermark: the time up to which the input is complete; None if unknown.
        output_watermark: the same of the output.
        keys: the number of keys with state.
        state_bytes: the bytes of all state, including side inputs and elements waiting for them.
        dropped_late: the number of elements dropped because their window was past the watermark and
            the allowed lateness.
        tasks_busy: the number of tasks of the last micro-batch in which the stage had elements.
        busiest_task: the elements in its largest PCollection, in the task with the most.
        holder: the key that holds the output watermark; None if there is none or it is unknown.
        tasks_started: the number of tasks with a started attempt. A task counts once as started and
            once as done, however often Spark runs it.
        tasks_done: the number of tasks with a successful attempt.
        tasks_failed: the number of failed attempts.
        seconds: from the start of its first task to the last signal.
        since: from the start of the pipeline to that of the stage's first task, in seconds; None
            before.
    """

    name: str
    state: StageState = StageState.WAITING
    elements: int = 0
    busiest: int = 0
    per_second: float = 0.0
    input_watermark: Timestamp | None = None
    output_watermark: Timestamp | None = None
    keys: int = 0
    state_bytes: int = 0
    dropped_late: int = 0
    tasks_busy: int = 0
    busiest_task: int = 0
    holder: WatermarkHolder | None = None
    tasks_started: int = 0
    tasks_done: int = 0
    tasks_failed: int = 0
    seconds: float = 0.0
    since: float | None = None

    @property
    def hold(self) -> Timestamp | None:
        """The hold on the output watermark behind the input watermark; None if there is none.

        It is the minimum timestamp at which stored elements may still be emitted.
        """
        if self.input_watermark is None or self.output_watermark is None:
            return None
        held = self.output_watermark < self.input_watermark
        return self.output_watermark if held else None

    @property
    def held_seconds(self) -> float | None:
        """The distance of the output watermark behind that of unbounded input, in seconds.

        None if nothing holds it, and at the end of time.
        """
        hold, arrived = self.hold, self.input_watermark
        if hold is None or arrived is None or arrived >= MAX_TIMESTAMP:
            return None
        return float((arrived - hold).micros / _SECOND)


StreamingStageProgress = StageProgress
"""The type of a stage in streaming; the same as in batch."""


@dataclass(frozen=True)
class PipelineProgress:
    """A batch pipeline at one moment.

    Live figures come from datagrams and may be incomplete; after a successful run they are exact.

    Attributes:
        stages: in topological order.
    """

    stages: tuple[StageProgress, ...] = ()

    def count(self, state: StageState) -> int:
        """Return the number of stages in a state."""
        return sum(stage.state is state for stage in self.stages)

    def _repr_html_(self) -> str:
        return progress_html(self)


@dataclass(frozen=True)
class StreamingProgress:
    """A streaming pipeline at the end of its last micro-batch.

    Attributes:
        state: WAITING before the end of the first micro-batch.
        micro_batch: the number of the last micro-batch. The first of a query is 1; a restarted
            query continues the count.
        batch_seconds: its duration.
        per_second: the elements per second read by the pipeline over the last micro-batches; for
            bounded splittable DoFns, their input only.
        lag_seconds: the time from the minimum source watermark until now. None if undefined: before
            the first watermark, after the end of all sources, and for a TestStream.
        stages: in topological order.
        partitions: the partitions of event hubs that are read over AMQP.
        phases: the seconds of the last micro-batch by phase: Spark's ``latestOffset``,
            ``getBatch``, ``queryPlanning``, ``walCommit``, ``addBatch`` and ``commitOffsets``, and
            within ``addBatch`` ``stages``, ``delivery`` to Spark's sinks, ``collecting`` of reports
            and ``feedback``. Unknown phases are missing.
    """

    state: StageState = StageState.WAITING
    micro_batch: int = 0
    batch_seconds: float = 0.0
    per_second: float = 0.0
    lag_seconds: float | None = None
    stages: tuple[StageProgress, ...] = ()
    partitions: tuple[PartitionProgress, ...] = ()
    phases: Mapping[str, float] = field(default_factory=dict)

    @property
    def dropped_late(self) -> int:
        """The number of late elements dropped by all stages."""
        return sum(stage.dropped_late for stage in self.stages)

    def _repr_html_(self) -> str:
        return progress_html(self)


Progress: TypeAlias = PipelineProgress | StreamingProgress
"""A pipeline at one moment, in batch or in streaming."""

Texts = Mapping[str, str]
"""Figures as texts by column; empty if there is nothing to show."""

_BATCH_COLUMNS = ("state", "tasks", "elements", "rate", "time")
_STREAMING_COLUMNS = ("elements", "rate", "watermark", "held", "state", "late")
PARTITION_COLUMNS = ("read by", "partition", "left", "factor", "last read", "took")
"""Columns of the table of partitions."""

_LEAST_RATE = 0.5
_COLOURS = {
    str(StageState.WAITING): "#8a8a8a",
    str(StageState.RUNNING): "#1f77b4",
    str(StageState.DONE): "#2e8b57",
    str(StageState.FAILED): "#c62828",
    str(StageState.STOPPED): "#b8860b",
}


def stage_table(progress: Progress) -> tuple[Sequence[str], int, Callable[[StageProgress], Texts]]:
    """Return the form of the table of stages.

    Returns:
        The columns beside the name of the stage, the number of columns to the left that are not
        figures, with the name, and a function that formats the figures of a stage.
    """
    if isinstance(progress, StreamingProgress):
        return _STREAMING_COLUMNS, 1, streaming_texts
    return _BATCH_COLUMNS, 2, batch_texts


def batch_texts(stage: StageProgress) -> Texts:
    """Format the figures of a stage of a batch."""
    texts = {"state": str(stage.state), "rate": _rate(stage.per_second)}
    if not stage.tasks_started:
        return {**dict.fromkeys(_BATCH_COLUMNS, ""), **texts}
    failed = f"{stage.tasks_failed} failed" if stage.tasks_failed else ""
    return {
        **texts,
        "tasks": joined(f"{stage.tasks_done}/{stage.tasks_started}", failed),
        "elements": f"{stage.busiest:,}",
        "time": duration(stage.seconds),
    }


def streaming_texts(stage: StageProgress) -> Texts:
    """Format the figures of a stage of a stream, with ``input``, ``holder`` and ``busy``."""
    most = f"{stage.busiest_task:,} elements at most" if stage.tasks_busy > 1 else ""
    held = stage.held_seconds
    keys = f"{counted(stage.keys, 'key')}, {size(stage.state_bytes)}"
    return {
        "elements": f"{stage.busiest:,}",
        "rate": _rate(stage.per_second),
        "watermark": moment(stage.output_watermark),
        "input": moment(stage.input_watermark),
        "held": "" if held is None else f"held {duration(held)}",
        "holder": "" if held is None else _holder(stage),
        "busy": joined(f"{stage.tasks_busy:,}", most) if stage.tasks_busy else "",
        "state": keys if stage.keys or stage.state_bytes else "",
        "late": f"{stage.dropped_late:,} late" if stage.dropped_late else "",
    }


def partition_texts(of: PartitionProgress) -> tuple[str, ...]:
    """Format a row of the table of partitions."""
    took = (f"{of.events:,}", duration(of.seconds)) if of.events else ("", "")
    return line(of.step), str(of.partition), f"{of.lag:,}", f"{of.factor:.3g}", *took


def backlog(partitions: Iterable[PartitionProgress]) -> str:
    """Format the number of events waiting in event hubs."""
    count = sum(partition.lag for partition in partitions)
    return counted(count, "event") if count else ""


def slowest(partitions: Iterable[PartitionProgress]) -> str:
    """Describe the partition with the smallest fraction of its share, if it is slow."""
    least = min(partitions, key=lambda partition: partition.factor, default=None)
    if least is None or least.factor >= 1:
        return ""
    return f"partition {least.partition} slow, at {least.factor:.3g}"


def headline(progress: Progress, seconds: float | None = None) -> str:
    """Summarize the pipeline in one line, with the time since its start if known."""
    after = "" if seconds is None else f"after {duration(seconds)}"
    if isinstance(progress, StreamingProgress):
        return joined(*_of_query(progress), after)
    others = (StageState.RUNNING, StageState.FAILED, StageState.STOPPED)
    counts = [(progress.count(state), state) for state in others]
    done = f"{progress.count(StageState.DONE)} of {len(progress.stages)} stages done"
    stages = joined(done, *(f"{count} {state}" for count, state in counts if count))
    return f"{stages} {after}".rstrip()


def progress_html(progress: Progress, seconds: float | None = None) -> str:
    """Return a table of the stages with a summary line, for notebooks."""
    columns, left, texts_of = stage_table(progress)
    texts = ((stage.name, texts_of(stage)) for stage in progress.stages)
    rows = ((name, *map(found.__getitem__, columns)) for name, found in texts)
    table = table_html(("stage", *columns), rows, left, _COLOURS)
    if isinstance(progress, StreamingProgress) and progress.partitions:
        table += table_html(PARTITION_COLUMNS, map(partition_texts, progress.partitions))
    return f"<div>{table}<div>{escape(headline(progress, seconds))}</div></div>"


def _of_query(progress: StreamingProgress) -> list[str]:
    is_running = progress.state is StageState.RUNNING
    parts = ["" if is_running else str(progress.state)]
    if progress.micro_batch:
        parts.append(f"micro-batch {progress.micro_batch}")
    if is_running:
        parts += [duration(progress.batch_seconds), f"{progress.per_second:,.0f} elements/s"]
        if progress.lag_seconds is not None:
            parts.append(f"{duration(progress.lag_seconds)} behind")
    left = backlog(progress.partitions)
    parts += [f"{left} left to read" if left else "", slowest(progress.partitions)]
    if progress.dropped_late:
        parts.append(f"{counted(progress.dropped_late, 'late element')} dropped")
    return parts


def _holder(stage: StageProgress) -> str:
    """Describe the timer, window or state that holds the watermark, with its end and step."""
    found = stage.holder
    if found is None:
        return ""
    until = "" if found.until is None else f" until {moment(found.until)}"
    step = f"in {found.step}" if found.step not in ("", stage.name) else ""
    return joined(f"{found.what} of {found.key}{until}", step)


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}/s" if per_second >= _LEAST_RATE else ""

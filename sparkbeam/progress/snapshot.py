"""Snapshots of a running pipeline's progress, for programs and for the display."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp

from sparkbeam.progress.partitions import PartitionProgress

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
class StageProgress:
    """A stage of fused transforms.

    A task counts once as started and once as done, however often Spark runs it.

    Attributes:
        name: the labels of the user's transforms.
        state: the state of the stage.
        tasks_started: the number of tasks with a started attempt.
        tasks_done: the number of tasks with a successful attempt.
        tasks_failed: the number of failed attempts.
        elements: the number of input elements.
        busiest: the number of elements in the largest PCollection of the stage. For a stage that
            reads files, whose input is a few ranges, this measures the elements read.
        seconds: from the start of its first task to the last signal.
        since: from the start of the pipeline to that of the stage's first task, in seconds; None
            before.
    """

    name: str
    state: StageState = StageState.WAITING
    tasks_started: int = 0
    tasks_done: int = 0
    tasks_failed: int = 0
    elements: int = 0
    busiest: int = 0
    seconds: float = 0.0
    since: float | None = None

    @property
    def per_second(self) -> float:
        """The average number of elements per second in the busiest PCollection."""
        return self.busiest / self.seconds if self.seconds > 0 else 0.0


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
        return _html(self)


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
class StreamingStageProgress:
    """A stage of a streaming pipeline, at the end of a micro-batch.

    Attributes:
        name: the labels of the user's transforms.
        elements: the number of input elements since the first start of the query.
        busiest: the number of elements in the largest PCollection of the stage.
        per_second: the elements per second in that PCollection, over the last micro-batches.
        input_watermark: the time up to which the input is complete; None if unknown.
        output_watermark: the same of the output.
        keys: the number of keys with state.
        state_bytes: the bytes of all state, including side inputs and elements waiting for them.
        dropped_late: the number of elements dropped because their window was past the watermark and
            the allowed lateness.
        tasks_busy: the number of tasks of the last micro-batch in which the stage had elements.
        busiest_task: the elements in its largest PCollection, in the task with the most.
        holder: the key that holds the output watermark; None if there is none or it is unknown.
    """

    name: str
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
    stages: tuple[StreamingStageProgress, ...] = ()
    partitions: tuple[PartitionProgress, ...] = ()
    phases: Mapping[str, float] = field(default_factory=dict)

    @property
    def dropped_late(self) -> int:
        """The number of late elements dropped by all stages."""
        return sum(stage.dropped_late for stage in self.stages)

    def _repr_html_(self) -> str:
        return _html(self)


def _html(progress: "Progress") -> str:
    from sparkbeam.progress.html import progress_html

    return progress_html(progress)


Progress: TypeAlias = PipelineProgress | StreamingProgress
"""A pipeline at one moment, in batch or in streaming."""

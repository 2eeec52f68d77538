"""What there is to know of a running pipeline: a snapshot, for programs and for the display."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp

from sparkbeam.progress.partitions import PartitionProgress

_SECOND = 1e6


class StageState(StrEnum):
    """How far a stage is, or in streaming the whole pipeline."""

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
    """One stage: transforms that run fused.

    A task counts as started and as done once, however often Spark runs it.

    Attributes:
        name: the labels of the user's transforms.
        state: how far the stage is.
        tasks_started: tasks of which an attempt has started.
        tasks_done: tasks of which an attempt has succeeded.
        tasks_failed: attempts that have failed.
        elements: what has gone into the stage.
        busiest: the elements in the PCollection of the stage that has the most
            of them. A stage that reads files takes in a few ranges, and this
            tells how much it has read.
        seconds: from the start of its first task to the last sign of life.
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
        """The elements of the busiest PCollection, per second on average."""
        return self.busiest / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class PipelineProgress:
    """A pipeline at one moment.

    Live figures come from datagrams and may lack some; after a pipeline has
    succeeded they are exact.

    Attributes:
        stages: in an order in which they can run.
    """

    stages: tuple[StageProgress, ...] = ()

    def count(self, state: StageState) -> int:
        """How many stages are in a state."""
        return sum(stage.state is state for stage in self.stages)

    def _repr_html_(self) -> str:
        return _html(self)


@dataclass(frozen=True)
class WatermarkHolder:
    """What a stage keeps that holds its output watermark, the oldest of all.

    Attributes:
        key: whose it is: its ``repr``, shortened.
        what: ``timer``, ``window``, or ``state`` where it is neither.
        until: when it lets go, in event time or, of a timer in processing time, by the clock; None
            where that is not known.
        step: the label of the step that keeps it; empty where that is not known.
    """

    key: str
    what: str
    until: Timestamp | None
    step: str = ""


@dataclass(frozen=True)
class StreamingStageProgress:
    """One stage of a streaming pipeline, at the end of a micro-batch.

    Attributes:
        name: the labels of the user's transforms.
        elements: what has gone into the stage since the query was first started.
        busiest: the elements in the PCollection of the stage that has the most of them.
        per_second: the elements of the same PCollection, per second over the last micro-batches.
        input_watermark: up to when the input is complete; None where nothing is known yet.
        output_watermark: the same of the output.
        keys: of how many keys the stage has state.
        state_bytes: how many bytes all its state takes, with side inputs and what waits for them.
        dropped_late: elements that were dropped, as their window was past the watermark and the
            allowed lateness.
        tasks_busy: in how many tasks of the last micro-batch the stage had elements.
        busiest_task: how many elements were in its busiest PCollection, in the task with the most.
        holder: which key holds the output watermark, where one does and is known.
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
        """What keeps the output watermark behind the input watermark; None where nothing does.

        It is the oldest timestamp with which what the stage keeps may still come out.
        """
        if self.input_watermark is None or self.output_watermark is None:
            return None
        held = self.output_watermark < self.input_watermark
        return self.output_watermark if held else None

    @property
    def held_seconds(self) -> float | None:
        """How far the output watermark is held behind that of an input which goes on.

        None where nothing holds it, and at the end of time, from which all is far.
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
        micro_batch: the number of the last one. The first of a query is 1, and a query that goes
            on after a stop counts on.
        batch_seconds: how long it took.
        per_second: how many elements the pipeline has taken in, per second over the last
            micro-batches; of bounded splittable DoFns only what they were given.
        lag_seconds: the time from the least watermark of the sources until now. None where that
            has no meaning: before there is one, when all sources have ended, for a TestStream.
        stages: in an order in which they can run.
        partitions: of the event hubs that are read over AMQP.
        phases: the seconds that parts of the last micro-batch took, by their names: Spark's
            ``latestOffset``, ``getBatch``, ``queryPlanning``, ``walCommit``, ``addBatch`` and
            ``commitOffsets``, and within ``addBatch`` ``stages``, ``delivery`` to Spark's sinks,
            ``collecting`` of reports and ``feedback``. Those that are not known are missing.
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
        """The late elements that all stages have dropped."""
        return sum(stage.dropped_late for stage in self.stages)

    def _repr_html_(self) -> str:
        return _html(self)


def _html(progress: "Progress") -> str:
    from sparkbeam.progress.html import progress_html

    return progress_html(progress)


Progress: TypeAlias = PipelineProgress | StreamingProgress
"""A pipeline at one moment, in batch or in streaming."""

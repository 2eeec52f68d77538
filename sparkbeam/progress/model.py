"""What there is to know of a running pipeline: a snapshot, for programs and for the display."""

from dataclasses import dataclass
from enum import StrEnum


class StageState(StrEnum):
    """How far a stage is."""

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
    """

    name: str
    state: StageState = StageState.WAITING
    tasks_started: int = 0
    tasks_done: int = 0
    tasks_failed: int = 0
    elements: int = 0
    busiest: int = 0
    seconds: float = 0.0

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

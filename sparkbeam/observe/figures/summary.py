"""Figures of a run by step and their texts, for finding out where its time went."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sparkbeam.common.display_text import line
from sparkbeam.observe.figures.formats import counted, duration, joined, size
from sparkbeam.observe.figures.tables import table_html, table_lines


@dataclass(frozen=True)
class SparkStage:
    """A stage of Spark, which runs between two shuffles; its last attempt.

    Attributes:
        id: its number in Spark's UI.
        is_done: whether all its tasks have succeeded.
        tasks: the number of tasks.
        failed_tasks: the number of failed task attempts.
        read_bytes: the bytes read from shuffles.
        written_bytes: the bytes written to a shuffle.
        spilled_memory_bytes: the in-memory size of spilled data.
        spilled_disk_bytes: its size on disk.
        largest_bytes: the shuffle bytes read by the largest task.
        median_bytes: the shuffle bytes read by the median task.
    """

    id: int
    is_done: bool = False
    tasks: int = 0
    failed_tasks: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    spilled_memory_bytes: int = 0
    spilled_disk_bytes: int = 0
    largest_bytes: int = 0
    median_bytes: int = 0

    @property
    def skew(self) -> float | None:
        """The ratio of the largest task's shuffle read to the median task's."""
        return self.largest_bytes / self.median_bytes if self.median_bytes else None


@dataclass(frozen=True)
class StepSummary:
    """A step of a pipeline, over all committed tasks.

    Attributes:
        label: the label of the transform, with its part in an expansion by Beam's optimizer; or the
            stages that read the output of the stage.
        elements_in: the number of input elements.
        elements_out: the number of elements in all outputs.
        seconds: the time that all workers spent in the step, by Beam's state sampling; None if
            unknown.
        bytes_out: the encoded size of the outputs, estimated from sampled elements; None if
            unknown.
        columns: ``columns`` if the step runs over columns, or the reason why not; empty if its
            input has none.
        refused: the number of blocks of columns that were processed element by element, by reason.
    """

    label: str
    elements_in: int = 0
    elements_out: int = 0
    seconds: float | None = None
    bytes_out: int | None = None
    columns: str = ""
    refused: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class StageSummary:
    """Steps that have run fused.

    Attributes:
        name: the labels of the transforms.
        steps: in topological order.
        tasks: the number of committed tasks; 0 in streaming.
        largest_task: the input elements of the largest task.
        median_task: the input elements of the median task.
        spark: the Spark stages that have run the steps, possibly with steps of other stages; in
            streaming those of the last micro-batch. None if unknown.
    """

    name: str
    steps: tuple[StepSummary, ...]
    tasks: int = 0
    largest_task: int = 0
    median_task: int = 0
    spark: tuple[SparkStage, ...] = ()

    @property
    def skew(self) -> float | None:
        """The ratio of the largest task to the median task."""
        return self.largest_task / self.median_task if self.median_task else None


@dataclass(frozen=True)
class RunSummary:
    """The committed figures of a run by stage; its text form is a table.

    Attributes:
        stages: in topological order.
        failed_attempts: the number of failed task attempts known so far.
    """

    stages: tuple[StageSummary, ...] = ()
    failed_attempts: int = 0

    def content(self) -> dict[str, Any]:
        """Return the summary as JSON-compatible data."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        told: set[int] = set()
        for stage in self.stages:
            skew = f"median {stage.median_task:,} elements per task, at most {stage.largest_task:,}"
            tasks = joined(counted(stage.tasks, "task"), skew if stage.tasks > 1 else "")
            yield f"{line(stage.name)}: {tasks}" if stage.tasks else line(stage.name)
            for spark in stage.spark:
                again = f"Spark's stage {spark.id}, as above"
                yield f"  {again if spark.id in told else '; '.join(spark_texts(spark))}"
                told.add(spark.id)
            rows = [("step", "in", "out", "time", "bytes out", ""), *map(step_cells, stage.steps)]
            yield from (f"  {row}" for row in table_lines(rows))
        if self.failed_attempts:
            yield counted(self.failed_attempts, "failed attempt")

    def _repr_html_(self) -> str:
        cells = (step_cells(step) for stage in self.stages for step in stage.steps)
        return table_html(
            ("step", "columns", "in", "out", "time", "bytes out"),
            ((label, columns, *figures) for label, *figures, columns in cells),
            left=2,
        )


def step_cells(step: StepSummary) -> tuple[str, ...]:
    """Format a step: label, elements in and out, time, bytes out, columns."""
    return (
        line(step.label),
        f"{step.elements_in:,}",
        f"{step.elements_out:,}",
        "-" if step.seconds is None else duration(step.seconds),
        "-" if step.bytes_out is None else size(step.bytes_out),
        column_text(step.columns, step.refused),
    )


def column_text(columns: str, refused: Mapping[str, int]) -> str:
    """Describe how a step handles columns, and the number of refused blocks by reason."""
    parts = [columns] if columns else []
    for reason, count in refused.items():
        why = "" if columns.endswith(f"because {reason}") else f": {reason}"
        parts.append(f"{counted(count, 'block')} refused{why}")
    return "; ".join(parts)


def time_in_steps(stage: StageSummary) -> str:
    """Format the time that all workers spent in the steps of a stage; empty if unknown."""
    known = [step.seconds for step in stage.steps if step.seconds is not None]
    return duration(sum(known)) if known else ""


def spark_texts(stage: SparkStage) -> Iterator[str]:
    """Describe Spark's figures of a Spark stage."""
    failed = counted(stage.failed_tasks, "failed attempt") if stage.failed_tasks else ""
    yield f"Spark's stage {stage.id}: {joined(counted(stage.tasks, 'task'), failed)}"
    if stage.read_bytes:
        yield (
            f"{size(stage.read_bytes)} read from shuffles, {size(stage.median_bytes)} "
            f"by the median task and {size(stage.largest_bytes)} at most"
        )
    if stage.written_bytes:
        yield f"{size(stage.written_bytes)} written to a shuffle"
    if stage.spilled_memory_bytes or stage.spilled_disk_bytes:
        yield (
            f"{size(stage.spilled_memory_bytes)} spilled, {size(stage.spilled_disk_bytes)} on disk"
        )

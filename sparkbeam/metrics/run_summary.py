"""Summary of a run by step, for finding out where its time went."""

import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

from apache_beam.metrics import monitoring_infos

from sparkbeam.common.display_text import line
from sparkbeam.metrics.spark_stages import SparkStage
from sparkbeam.plan.column_steps import told
from sparkbeam.plan.column_types import ColumnStep
from sparkbeam.plan.model import Plan, Stage
from sparkbeam.plan.parsed_stage import parsed
from sparkbeam.plan.ports import name_of
from sparkbeam.progress import words
from sparkbeam.progress.html import table_html
from sparkbeam.wire.consolidation import Infos
from sparkbeam.wire.reports import NAMESPACE, REFUSED_BLOCKS


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
            yield f"{line(stage.name)}{_of_tasks(stage)}"
            for spark in stage.spark:
                again = spark.id in told
                yield f"  {_again(spark) if again else '; '.join(spark_words(spark))}"
                told.add(spark.id)
            rows = [
                ("step", "in", "out", "time", "bytes out", ""),
                *(cells(step) for step in stage.steps),
            ]
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            for label, *figures, columns in rows:
                aligned = [
                    text.rjust(width) for text, width in zip(figures, widths[1:], strict=False)
                ]
                row = "  ".join([label.ljust(widths[0]), *aligned, columns])
                yield f"  {row}".rstrip()
        if self.failed_attempts:
            yield _failed(self.failed_attempts)

    def _repr_html_(self) -> str:
        return table_html(
            ("step", "columns", "in", "out", "time", "bytes out"),
            (
                (escape(label), escape(columns), *figures)
                for stage in self.stages
                for label, *figures, columns in (cells(step) for step in stage.steps)
            ),
            left=2,
        )


def run_summary(
    plan: Plan,
    infos: Mapping[str, Infos],
    tasks: Mapping[str, Iterable[int]],
    failed_attempts: int,
    spark: Mapping[str, Iterable[SparkStage]] | None = None,
) -> RunSummary:
    """Summarize a run.

    Args:
        plan: the plan of the run.
        infos: the committed metrics by stage id; one per name and labels.
        tasks: the input elements of each task, by stage id.
        failed_attempts: the number of failed task attempts.
        spark: the Spark stages that have run a stage, by stage id.
    """
    stages, taken = [], told(plan)
    for stage in plan.stages:
        sizes = sorted(tasks.get(stage.id, ()))
        stages.append(
            StageSummary(
                stage.name,
                tuple(_steps(plan, stage, infos.get(stage.id, []), taken.get(stage.id, []))),
                tasks=len(sizes),
                largest_task=sizes[-1] if sizes else 0,
                median_task=int(statistics.median(sizes)) if sizes else 0,
                spark=tuple((spark or {}).get(stage.id, ())),
            )
        )
    return RunSummary(tuple(stages), failed_attempts)


def _steps(
    plan: Plan, stage: Stage, infos: Infos, taken: Iterable[ColumnStep]
) -> Iterator[StepSummary]:
    figures = _Figures(infos)
    columns = {step.label: step.words for step in taken}
    for transform in parsed(stage).in_order():
        label = transform.unique_name
        yield StepSummary(
            label=label,
            elements_in=figures.elements(transform.inputs.values()),
            elements_out=figures.elements(transform.outputs.values()),
            seconds=figures.seconds(label),
            bytes_out=figures.bytes(transform.outputs.values()),
            columns=columns.get(label, ""),
            refused=figures.refused(label),
        )
    for port in stage.ports:
        label, refused = name_of(plan, port), figures.refused(port.transform_id)
        if label in columns or refused:
            count = figures.elements([port.pcollection])
            yield StepSummary(label, count, count, columns=columns.get(label, ""), refused=refused)


class _Figures:
    """The metrics of a stage, indexed by what they count."""

    def __init__(self, infos: Infos) -> None:
        self._elements: dict[str, int] = {}
        self._sizes: dict[str, float] = {}
        self._millis: dict[str, int] = {}
        self._refused: dict[str, dict[str, int]] = {}
        for info in infos:
            self._take(info)

    def _take(self, info: Any) -> None:
        labels = info.labels
        pcollection = labels.get(monitoring_infos.PCOLLECTION_LABEL, "")
        step = labels.get(monitoring_infos.PTRANSFORM_LABEL, "")
        if info.urn == monitoring_infos.ELEMENT_COUNT_URN:
            self._elements[pcollection] = monitoring_infos.extract_counter_value(info)
        elif info.urn == monitoring_infos.SAMPLED_BYTE_SIZE_URN:
            count, total, *_ = monitoring_infos.extract_distribution(info)
            if count:
                self._sizes[pcollection] = total / count
        elif info.urn == monitoring_infos.TOTAL_MSECS_URN:
            self._millis[step] = monitoring_infos.extract_counter_value(info)
        elif labels.get(monitoring_infos.NAMESPACE_LABEL) == NAMESPACE:
            name = labels.get(monitoring_infos.NAME_LABEL, "")
            if name.startswith(REFUSED_BLOCKS):
                reasons = self._refused.setdefault(step, {})
                count = monitoring_infos.extract_counter_value(info)
                reasons[name.removeprefix(REFUSED_BLOCKS)] = count

    def elements(self, pcollections: Iterable[str]) -> int:
        return sum(self._elements.get(pcollection, 0) for pcollection in pcollections)

    def bytes(self, pcollections: Iterable[str]) -> int | None:
        known = [each for each in pcollections if each in self._sizes]
        if not known:
            return None
        return round(sum(self._sizes[each] * self._elements.get(each, 0) for each in known))

    def seconds(self, label: str) -> float | None:
        millis = self._millis.get(label)
        return None if millis is None else millis / 1000

    def refused(self, label: str) -> dict[str, int]:
        return self._refused.get(label, {})


def cells(step: StepSummary) -> tuple[str, ...]:
    """Format a step: label, elements in and out, time, bytes out, columns."""
    return (
        line(step.label),
        f"{step.elements_in:,}",
        f"{step.elements_out:,}",
        "-" if step.seconds is None else words.duration(step.seconds),
        "-" if step.bytes_out is None else words.size(step.bytes_out),
        refused_words(step.columns, step.refused),
    )


def refused_words(columns: str, refused: Mapping[str, int]) -> str:
    """Describe how a step handles columns, and the number of refused blocks by reason.

    Args:
        columns: a description of how it handles columns.
        refused: the number of refused blocks by reason.
    """
    parts = [columns] if columns else []
    for reason, count in refused.items():
        why = "" if columns.endswith(f"because {reason}") else f": {reason}"
        parts.append(f"{count:,} {'block' if count == 1 else 'blocks'} refused{why}")
    return "; ".join(parts)


def spark_words(stage: SparkStage) -> Iterator[str]:
    """Describe Spark's figures of a Spark stage."""
    tasks = "task" if stage.tasks == 1 else "tasks"
    failed = f", {_failed(stage.failed_tasks)}" if stage.failed_tasks else ""
    yield f"Spark's stage {stage.id}: {stage.tasks:,} {tasks}{failed}"
    if stage.read_bytes:
        yield (
            f"{words.size(stage.read_bytes)} read from shuffles, {words.size(stage.median_bytes)} "
            f"by the median task and {words.size(stage.largest_bytes)} at most"
        )
    if stage.written_bytes:
        yield f"{words.size(stage.written_bytes)} written to a shuffle"
    if stage.spilled_memory_bytes or stage.spilled_disk_bytes:
        yield (
            f"{words.size(stage.spilled_memory_bytes)} spilled, "
            f"{words.size(stage.spilled_disk_bytes)} on disk"
        )


def _failed(attempts: int) -> str:
    return f"{attempts:,} failed {'attempt' if attempts == 1 else 'attempts'}"


def _again(stage: SparkStage) -> str:
    return f"Spark's stage {stage.id}, as above"


def _of_tasks(stage: StageSummary) -> str:
    if not stage.tasks:
        return ""
    tasks = "task" if stage.tasks == 1 else "tasks"
    skew = (
        ""
        if stage.tasks == 1
        else (
            f", of {stage.median_task:,} elements in the median and {stage.largest_task:,} at most"
        )
    )
    return f": {stage.tasks:,} {tasks}{skew}"

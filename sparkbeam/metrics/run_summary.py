"""What a run has done, step by step: for whoever wants to know where its time went."""

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
    """A step of a pipeline, over all tasks that are committed.

    Attributes:
        label: of the transform, with the part of it that Beam's optimizer has made of it; or which
            stages get what the stage writes.
        elements_in: what has gone into it.
        elements_out: what has come out of all its outputs.
        seconds: the time that workers spent in it, all together, by Beam's samples; None where
            workers do not say.
        bytes_out: how large its outputs are when they are encoded, by a sample of the elements;
            None where workers do not say.
        columns: ``columns`` where it takes them, or why it makes elements of them; empty where it
            gets none.
        refused: how many blocks of columns it took as elements all the same, by reason.
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
        steps: in an order in which elements go through them.
        tasks: how many tasks are committed; 0 in streaming.
        largest_task: the elements that the largest of them has taken in.
        median_task: the same of the one in the middle.
        spark: the stages of Spark that they have run in, perhaps with steps of others; in streaming
            those of the last micro-batch. None where Spark does not say.
    """

    name: str
    steps: tuple[StepSummary, ...]
    tasks: int = 0
    largest_task: int = 0
    median_task: int = 0
    spark: tuple[SparkStage, ...] = ()

    @property
    def skew(self) -> float | None:
        """How many times larger the largest task was than the one in the middle."""
        return self.largest_task / self.median_task if self.median_task else None


@dataclass(frozen=True)
class RunSummary:
    """What is committed of a run, stage by stage; as text it is a table.

    Attributes:
        stages: in an order in which they can run.
        failed_attempts: how many attempts at tasks are known to have failed.
    """

    stages: tuple[StageSummary, ...] = ()
    failed_attempts: int = 0

    def content(self) -> dict[str, Any]:
        """All of it as what JSON can say."""
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
    """Sums a run up.

    Args:
        plan: what runs.
        infos: what is committed of each stage, by its id; one for each name and set of labels.
        tasks: the elements that went into each task of a stage, by its id.
        failed_attempts: how many attempts at tasks have failed.
        spark: the stages of Spark in which a stage has run, by its id.
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
    """The metrics of a stage by what they are of."""

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
    """A step in words: label, elements in and out, time, bytes out, columns."""
    return (
        line(step.label),
        f"{step.elements_in:,}",
        f"{step.elements_out:,}",
        "-" if step.seconds is None else words.duration(step.seconds),
        "-" if step.bytes_out is None else words.size(step.bytes_out),
        refused_words(step.columns, step.refused),
    )


def refused_words(columns: str, refused: Mapping[str, int]) -> str:
    """How a step takes columns, how many blocks of them it has refused, and why.

    Args:
        columns: how it takes them, in words.
        refused: how many blocks it has refused, by reason.
    """
    parts = [columns] if columns else []
    for reason, count in refused.items():
        why = "" if columns.endswith(f"because {reason}") else f": {reason}"
        parts.append(f"{count:,} {'block' if count == 1 else 'blocks'} refused{why}")
    return "; ".join(parts)


def spark_words(stage: SparkStage) -> Iterator[str]:
    """What Spark says of a stage of its own, in words."""
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

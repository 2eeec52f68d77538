"""Summary of a run by step, from the metrics of its tasks."""

import statistics
from collections.abc import Iterable, Iterator, Mapping

from apache_beam.metrics import monitoring_infos

from sparkbeam.observe.figures.summary import RunSummary, SparkStage, StageSummary, StepSummary
from sparkbeam.plan.model import Plan, Stage
from sparkbeam.plan.parsed_stage import parsed
from sparkbeam.plan.ports import name_of
from sparkbeam.wire.consolidation import Infos
from sparkbeam.wire.reports import NAMESPACE, REFUSED_BLOCKS


def run_summary(
    plan: Plan,
    infos: Mapping[str, Infos],
    tasks: Mapping[str, Iterable[int]],
    failed_attempts: int,
    spark: Mapping[str, Iterable[SparkStage]] | None = None,
) -> RunSummary:
    """Summarize a run.

    Args:
        infos: the committed metrics by stage id; one per name and labels.
        tasks: the input elements of each task, by stage id.
        spark: the Spark stages that have run a stage, by stage id.
    """
    stages = []
    for stage in plan.stages:
        sizes = sorted(tasks.get(stage.id, ()))
        stages.append(
            StageSummary(
                stage.name,
                tuple(_steps(plan, stage, infos.get(stage.id, []))),
                tasks=len(sizes),
                largest_task=sizes[-1] if sizes else 0,
                median_task=int(statistics.median(sizes)) if sizes else 0,
                spark=tuple((spark or {}).get(stage.id, ())),
            )
        )
    return RunSummary(tuple(stages), failed_attempts)


def _steps(plan: Plan, stage: Stage, infos: Infos) -> Iterator[StepSummary]:
    figures = _Figures(infos)
    columns = {step.label: step.words for step in stage.column_steps}
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

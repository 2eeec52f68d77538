"""Names of stages, PCollections and transforms in a checkpoint.

A translation numbers stages, PCollections and ports, and a step more or less shifts all numbers. In
a checkpoint a stage is named by its address, a PCollection by its producing step, a port by its
tag, and labels contain no lines of code.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from apache_beam.metrics import monitoring_infos

from sparkbeam.observe.figures.micro_batch import MicroBatch
from sparkbeam.plan.model import Plan, Stage
from sparkbeam.plan.object_identity import steady_names
from sparkbeam.plan.parsed_stage import parsed
from sparkbeam.streaming.committed_reports import Committed, stored_reports
from sparkbeam.streaming.feedback import Feedback
from sparkbeam.wire.consolidation import Infos
from sparkbeam.wire.reports import TaskReport

Name = tuple[str, str]
Labels = Mapping[str, str]
"""Mapping between names of transforms and PCollections."""

_LABELS = (monitoring_infos.PCOLLECTION_LABEL, monitoring_infos.PTRANSFORM_LABEL)


class StoredNames:
    """Translation between the names of a plan and those of its checkpoint."""

    def __init__(self, plan: Plan) -> None:
        self._stages = plan.stages
        self._ids = {stage.address: stage.id for stage in plan.stages}
        self._addresses = {stage.id: stage.address for stage in plan.stages}
        transforms = {stage.id: parsed(stage).transforms for stage in plan.stages}
        steps = steady_names(label for of_stage in transforms.values() for label in of_stage)
        self._stored = {
            stage.id: dict(_names(stage, transforms[stage.id], steps)) for stage in plan.stages
        }
        # A step may have moved to another stage.
        self._steps = _inverse(steps)
        self._own = {at: self._steps | _inverse(self._stored[id]) for at, id in self._ids.items()}

    def stored(self, report: TaskReport) -> TaskReport:
        """Rename the report of a task of the plan; modifies the report."""
        infos = _renamed(report.infos, self._stored[report.stage])
        return replace(report, stage=self._addresses[report.stage], infos=infos)

    def committed(self, feedback: Feedback | None) -> Committed:
        """Return what a micro-batch has stored, of whatever program."""
        reports = [] if feedback is None else stored_reports(feedback.reports)
        return Committed().plus(reports)

    def own_reports(self, feedback: Feedback) -> list[TaskReport]:
        """Return the stored reports, removed stages included, under the names of the plan."""
        return [
            replace(
                report,
                stage=self._ids.get(at, f"gone {at}"),
                infos=_renamed(report.infos, self._own.get(at, self._steps)),
            )
            for at, report in self.committed(feedback).by_stage.items()
        ]

    def own_batch(self, feedback: Feedback) -> MicroBatch | None:
        """Return the figures of a micro-batch by the ids of the plan, or None."""
        batch = MicroBatch.readable(feedback.summary)
        if batch is None:
            return None
        ids = self._ids
        stages = {ids[at]: stage for at, stage in batch.stages.items() if at in ids}
        names = {stage.id: stage.name for stage in self._stages if stage.id in stages}
        return replace(batch, stages=stages, names=names)


def _renamed(infos: Infos, names: Labels) -> Infos:
    """Rename the labels of metrics, in place."""
    for info in infos:
        for label in _LABELS:
            name = names.get(info.labels.get(label, ""))
            if name is not None:
                info.labels[label] = name
    return infos


def _inverse(names: Labels) -> dict[str, str]:
    return {stored: own for own, stored in names.items()}


def _names(stage: Stage, transforms: Mapping[str, Any], steps: Labels) -> Iterator[Name]:
    """Yield the stored name of each transform and PCollection of a stage, by its own."""
    ends = {stage.source_id: "source"}
    ends |= {port.transform_id: f"sink {port.tag}" for port in stage.ports}
    for id, transform in sorted(transforms.items()):
        name = ends.get(id, steps[id])
        yield id, name
        for output, pcollection in transform.outputs.items():
            yield pcollection, f"{name} {output}"

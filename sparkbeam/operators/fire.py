"""Triggers of batch pipelines, which make panes of accumulators and their counts."""

from typing import Self

from apache_beam.runners.worker import operations

from sparkbeam.operators.merge import Merge
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.plan.urns import FIRE
from sparkbeam.worker.steps.firing import make_fire
from sparkbeam.worker.steps.step import Step


class Fire(Merge):
    """Panes of accumulators."""

    over_blocks = False

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        return cls(step.label) if step.urn == FIRE else None

    def run(self, step: Step) -> operations.Operation:
        return make_fire(step)

"""DoFns with a ``process`` that takes the element alone, and no other method."""

from typing import Self

from apache_beam.runners.worker import operations

from sparkbeam.operators.function import Function
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.worker.steps.dofns import ElementOperation, prepared
from sparkbeam.worker.steps.step import Step


class Process(Function):
    """A DoFn of the element alone."""

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        return None if step.function is None else cls(step.label)

    def run(self, step: Step) -> operations.Operation:
        made = prepared(step, ElementOperation)
        made.over_columns = step.dofn.fn.process
        return made

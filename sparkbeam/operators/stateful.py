"""Beam's own operation of a DoFn with state or timers, over the state of the stage."""

from typing import Self

from apache_beam.runners.worker import operations

from sparkbeam.operators.beam import why_called
from sparkbeam.plan.operator import Operator
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.worker.steps.dofns import with_states
from sparkbeam.worker.steps.step import Step


class Stateful(Operator):
    """Beam's operation with the state of the stage."""

    over_blocks = False

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        return cls(step.label, why_called(step)) if step.is_stateful else None

    def run(self, step: Step) -> operations.Operation:
        return step.do_operation(with_states(step, operations.DoOperation), step.dofn)

"""Splittable DoFns, such as reads of files: Beam's own operation, whose failures name the step.

Beam itself names the step only in failures of the other methods of a DoFn.
"""

from typing import Self

from apache_beam.runners.worker import operations
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.operators.beam import why_called
from sparkbeam.plan.operator import Operator
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.plan.urns import PROCESS_RESTRICTIONS
from sparkbeam.wire.failure import within_step
from sparkbeam.worker.steps.step import Step


class Restrictions(Operator):
    """A splittable DoFn."""

    over_blocks = False

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        return cls(step.label, why_called(step)) if step.urn == PROCESS_RESTRICTIONS else None

    def run(self, step: Step) -> operations.Operation:
        return step.do_operation(RestrictionOperation, step.dofn)


class RestrictionOperation(operations.SdfProcessSizedElements):
    """Operation of elements with their restrictions."""

    def process(self, o: WindowedValue) -> None:
        with within_step(self.name_context.step_name):
            super().process(o)

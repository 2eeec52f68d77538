"""Beam's operation of a splittable DoFn on its restrictions, whose failures name the step.

Beam itself names the step only in failures of the other methods of a DoFn.
"""

from apache_beam.runners.worker import operations
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.wire.failure import within_step
from sparkbeam.worker.steps.step import Step


class RestrictionOperation(operations.SdfProcessSizedElements):
    """Operation of elements with their restrictions."""

    def process(self, o: WindowedValue) -> None:
        with within_step(self.name_context.step_name):
            super().process(o)


def make_restrictions(step: Step) -> operations.DoOperation:
    """Make the operation of a step that processes restrictions."""
    return step.do_operation(RestrictionOperation, step.dofn)

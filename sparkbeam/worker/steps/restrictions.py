"""Beam's operation of a splittable DoFn on its restrictions, whose failures name the step.

Beam's own names the step for what any other method of a DoFn raises.
"""

from apache_beam.runners.worker import operations
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.wire.failure import within_step
from sparkbeam.worker.steps.step import PROCESS_RESTRICTIONS, DoFnData, Step, Way


class RestrictionOperation(operations.SdfProcessSizedElements):
    """Processes elements with their restrictions."""

    def process(self, o: WindowedValue) -> None:
        with within_step(self.name_context.step_name):
            super().process(o)


def _dofn_of(step: Step) -> DoFnData | None:
    """The DoFn of a step that processes restrictions; None for any other step."""
    return step.dofn if step.urn == PROCESS_RESTRICTIONS else None


def _make(step: Step, data: DoFnData) -> operations.DoOperation:
    return step.do_operation(RestrictionOperation, data)


RESTRICTION = Way("a splittable DoFn", _dofn_of, _make)

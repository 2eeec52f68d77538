"""Extraction of the outputs of accumulators, the last phase of a combine."""

from contextlib import suppress

from apache_beam.runners.worker import operations

from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.columns import RecordShape, Shape
from sparkbeam.columns.python_types import Scalar
from sparkbeam.columns.vectors import empty_column
from sparkbeam.operators.merge import Merge
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.plan.urns import EXTRACT_OUTPUTS
from sparkbeam.worker.steps.combine_phases import ExtractOperation, make_phase
from sparkbeam.worker.steps.step import Step


class Extract(Merge):
    """The outputs of accumulators."""

    urn = EXTRACT_OUTPUTS

    def run(self, step: Step) -> operations.Operation:
        return make_phase(ExtractOperation, step)

    def result_type(self, step: PlannedStep, pair: Shape) -> Shape | None:
        form = form_of(step.combine_fn)
        if form is None or not isinstance(pair, RecordShape):
            return None
        key, value = pair.fields
        if not _is_plain_key(key):
            return None
        with suppress(Exception):  # One of the user's may need its ``setup``, or a value.
            numbers = form.numbers_of(empty_column(value), value)
            if numbers is not None:
                return RecordShape(tuple, ("0", "1"), (key, form.outputs(numbers)[1]))
        return None


def _is_plain_key(shape: Shape) -> bool:
    """Return whether keys become columns again when they are read from their encodings."""
    if isinstance(shape, RecordShape):
        return shape.type is tuple and all(map(_is_plain_key, shape.fields))
    return isinstance(shape, Scalar)

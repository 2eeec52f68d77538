"""Merging of accumulators behind a shuffle and their outputs, the last phases of a combine."""

from typing import Self

from apache_beam.runners.worker import operations

from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.plan.combine_columns import NO_FORM
from sparkbeam.plan.operator import Accumulators, Operator, Result
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.plan.urns import EXTRACT_OUTPUTS, MERGE_ACCUMULATORS
from sparkbeam.worker.steps.combine_phases import ExtractOperation, MergeOperation, make_phase
from sparkbeam.worker.steps.step import Step


class Merge(Operator):
    """A merge of accumulators."""

    urn = MERGE_ACCUMULATORS
    over_blocks = False

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        return cls(step.label, _why_elements(step)) if step.urn == cls.urn else None

    def run(self, step: Step) -> operations.Operation:
        return make_phase(MergeOperation, step)

    def merged_type(self, accumulators: Accumulators) -> Result:
        return accumulators


class Extract(Merge):
    """The outputs of accumulators."""

    urn = EXTRACT_OUTPUTS

    def run(self, step: Step) -> operations.Operation:
        return make_phase(ExtractOperation, step)

    def merged_type(self, accumulators: Accumulators) -> Result:
        return accumulators.output


def _why_elements(step: PlannedStep) -> str | None:
    """Return the reason why accumulators are merged one by one; None if columns may be taken."""
    if form_of(step.combine_fn) is None:
        return NO_FORM
    how = step.stage.grouping
    return None if how is None or how.merges_columns else how.format.why_elements

"""Merging of accumulators behind a shuffle, the second phase of a combine."""

from apache_beam.runners.worker import operations

from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.plan.combine_columns import NO_FORM
from sparkbeam.plan.operator import Accumulators, Operator, Result
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.plan.urns import MERGE_ACCUMULATORS
from sparkbeam.worker.steps.combine_phases import MergeOperation, make_phase
from sparkbeam.worker.steps.step import Step


class Merge(Operator):
    """A merge of accumulators."""

    urn = MERGE_ACCUMULATORS

    def run(self, step: Step) -> operations.Operation:
        return make_phase(MergeOperation, step)

    def describe(self, step: PlannedStep) -> str | None:
        if form_of(step.combine_fn) is None:
            return NO_FORM
        how = step.stage.grouping
        return None if how is None or how.merges_columns else how.format.why_elements

    def merged_type(self, accumulators: Accumulators) -> Result:
        return accumulators

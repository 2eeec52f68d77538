"""Merging of accumulators behind a shuffle, the second phase of a combine."""

from collections.abc import Iterable

from apache_beam.runners.worker import operations

from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.plan.combine_columns import NO_FORM
from sparkbeam.plan.operator import Operator
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.plan.urns import EXTRACT_OUTPUTS, MERGE_ACCUMULATORS
from sparkbeam.worker.steps.combine_phases import MergeOperation, make_phase
from sparkbeam.worker.steps.step import Step


class Merge(Operator):
    """A merge of accumulators."""

    urn = MERGE_ACCUMULATORS
    over_blocks = False

    def run(self, step: Step) -> operations.Operation:
        return make_phase(MergeOperation, step)

    def describe(self, step: PlannedStep) -> str | None:
        if form_of(step.combine_fn) is None:
            return NO_FORM
        how = step.stage.grouping
        return None if how is None or how.merges_columns else how.format.why_elements

    def results(self, step: PlannedStep) -> Iterable[str]:
        """Return the outputs of the combine: accumulators are columns if these are."""
        extracting = step.parsed.with_urn(EXTRACT_OUTPUTS)
        return [output for one in extracting for output in one.outputs.values()]

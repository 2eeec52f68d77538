"""Extraction of the outputs of accumulators, the last phase of a combine."""

from apache_beam.runners.worker import operations

from sparkbeam.operators.merge import Merge
from sparkbeam.plan.operator import Accumulators, Result
from sparkbeam.plan.urns import EXTRACT_OUTPUTS
from sparkbeam.worker.steps.combine_phases import ExtractOperation, make_phase
from sparkbeam.worker.steps.step import Step


class Extract(Merge):
    """The outputs of accumulators."""

    urn = EXTRACT_OUTPUTS

    def run(self, step: Step) -> operations.Operation:
        return make_phase(ExtractOperation, step)

    def merged_type(self, accumulators: Accumulators) -> Result:
        return accumulators.output

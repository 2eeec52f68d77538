"""Triggers of batch pipelines, which make panes of accumulators and their counts."""

from apache_beam.runners.worker import operations

from sparkbeam.operators.merge import Merge
from sparkbeam.plan.urns import FIRE
from sparkbeam.worker.steps.firing import make_fire
from sparkbeam.worker.steps.step import Step


class Fire(Merge):
    """Panes of accumulators."""

    urn = FIRE
    over_blocks = False

    def run(self, step: Step) -> operations.Operation:
        return make_fire(step)

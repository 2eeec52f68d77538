"""Combining of sessions before a shuffle, by an aggregator that merges them."""

from typing import Self

from apache_beam.runners.worker import operations

from sparkbeam.operators.precombine import Precombine
from sparkbeam.plan.model import SINK_URN
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.worker.steps.combines import make_precombine
from sparkbeam.worker.steps.step import Step


class SessionCombine(Precombine):
    """A combine of sessions before the shuffle, which only sinks with one aggregator read."""

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        found = super().matches(step)
        return found if found is not None and _has_one_aggregator(step) else None

    def run(self, step: Step) -> operations.Operation:
        return make_precombine(step, merges_sessions=True)


def _has_one_aggregator(step: PlannedStep) -> bool:
    aggregators = {port.aggregator for port in step.ports}
    are_sinks = all(reader.spec.urn == SINK_URN for reader in step.readers())
    return are_sinks and len(aggregators) == 1 and None not in aggregators

"""The values of a Create, of which each task emits its share."""

from apache_beam.runners.worker import operations

from sparkbeam.plan.model import CREATE_URN
from sparkbeam.plan.operator import Operator
from sparkbeam.worker.steps.functions import CreateOperation, make_function
from sparkbeam.worker.steps.step import Step


class Create(Operator):
    """A share of the values of a Create."""

    urn = CREATE_URN
    over_blocks = False
    creates = True

    def run(self, step: Step) -> operations.Operation:
        return make_function(CreateOperation, step)

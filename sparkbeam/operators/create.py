"""The values of a Create, of which each task emits its share."""

from itertools import islice

from apache_beam.runners.worker import operations
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.operators.function import FunctionOperation, make_function
from sparkbeam.plan.model import CREATE_URN
from sparkbeam.plan.operator import Operator
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.steps.step import Step


class Create(Operator):
    """A share of the values of a Create."""

    urn = CREATE_URN
    over_blocks = False
    creates = True

    def run(self, step: Step) -> operations.Operation:
        return make_function(CreateOperation, step)


class CreateOperation(FunctionOperation):
    """The values of a Create; each task emits its share.

    Attributes:
        share: the share of the values; set before each bundle.
    """

    share: slice = slice(None)

    def process(self, o: WindowedValue) -> None:
        """Emit the share."""
        self.process_block(Block(o, [o.value]))

    def process_block(self, block: Block) -> None:
        """Emit the share, for each of the impulses in ``block``."""
        with self.scoped_process_state:
            for impulse in block.elements():
                created = list(self.function(impulse.value) or ())[self.share]
                remaining = iter(created)
                while some := list(islice(remaining, self._limit.values)):
                    self.emit(Block(impulse, some))

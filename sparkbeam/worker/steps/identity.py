"""Operations on blocks: the step with which Beam gives the inputs of a Flatten one coder."""

from typing import Any

import apache_beam as beam
from apache_beam.runners.worker import operations

from sparkbeam.worker.blocks import Block
from sparkbeam.worker.emitter import Emitter
from sparkbeam.worker.steps.step import DoFnData, Step


class Identity(beam.DoFn):
    """A DoFn that emits its elements."""

    def process(self, element: Any) -> tuple[Any]:
        return (element,)


class IdentityOperation(operations.DoOperation):
    """Operation that emits elements, and blocks unchanged.

    Attributes:
        readers: the operations that take them.
    """

    takes_assigned = True
    """True, as blocks are emitted with their assigned windows."""

    readers: list[operations.Operation]

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._emitter = Emitter(self.readers, self.receivers[0])

    def process_block(self, block: Block) -> None:
        """Emit many elements."""
        with self.scoped_process_state:
            self._emitter.block(block)


def make_identity(step: Step) -> operations.DoOperation:
    """Make the operation that emits elements unchanged."""
    data, window_fn = DoFnData.alone(Identity()), step.windowing(step.input).windowfn
    return step.block_operation(IdentityOperation, data, window_fn)

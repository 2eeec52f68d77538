"""Operations on blocks: the step with which Beam gives the inputs of a Flatten one coder."""

from typing import Any

import apache_beam as beam
from apache_beam.runners.worker import operations

from sparkbeam.worker.blocks import Block
from sparkbeam.worker.emitter import Emitter
from sparkbeam.worker.steps.step import DoFnData, Step


class Identity(beam.DoFn):
    """Hands elements on."""

    def process(self, element: Any) -> tuple[Any]:
        return (element,)


class IdentityOperation(operations.DoOperation):
    """Hands elements on, and blocks as they are.

    Attributes:
        readers: the operations that take them.
    """

    takes_assigned = True
    """It hands blocks on with the windows that they are assigned."""

    readers: list[operations.Operation]

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._emitter = Emitter(self.readers, self.receivers[0])

    def process_block(self, block: Block) -> None:
        """Hands on many elements."""
        with self.scoped_process_state:
            self._emitter.block(block)


def make_identity(step: Step) -> operations.DoOperation:
    """Make the operation that hands elements on as they are."""
    data, window_fn = DoFnData.alone(Identity()), step.windowing(step.input).windowfn
    return step.block_operation(IdentityOperation, data, window_fn)

"""The step with which Beam gives the inputs of a Flatten one coder."""

from typing import Any

import apache_beam as beam
from apache_beam.runners.worker import operations
from apache_beam.runners.worker.bundle_processor import IDENTITY_DOFN_URN

from sparkbeam.plan.operator import Operator
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.steps.block_operation import BlockOperation
from sparkbeam.worker.steps.step import DoFnData, Step


class Identity(Operator):
    """Elements that are handed on unchanged."""

    urn = IDENTITY_DOFN_URN

    @property
    def hands_on(self) -> bool:
        return True

    def run(self, step: Step) -> operations.Operation:
        return step.block_operation(IdentityOperation, DoFnData.alone(_Same()))


class _Same(beam.DoFn):
    """A DoFn that emits its elements."""

    def process(self, element: Any) -> tuple[Any]:
        return (element,)


class IdentityOperation(BlockOperation):
    """Operation that emits elements, and blocks unchanged."""

    def process_block(self, block: Block) -> None:
        """Emit many elements."""
        with self.scoped_process_state:
            self._emitter.block(block)

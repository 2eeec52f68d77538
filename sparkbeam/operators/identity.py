"""The step with which Beam gives the inputs of a Flatten one coder."""

from typing import Any, Self

import apache_beam as beam
from apache_beam.runners.worker import operations
from apache_beam.runners.worker.bundle_processor import IDENTITY_DOFN_URN

from sparkbeam.plan.operator import Operator
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.emitter import Emitter
from sparkbeam.worker.steps.step import DoFnData, Step


class Identity(Operator):
    """Elements that are handed on unchanged."""

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        return cls(step.label) if step.urn == IDENTITY_DOFN_URN else None

    @property
    def hands_on(self) -> bool:
        return True

    def run(self, step: Step) -> operations.Operation:
        data, window_fn = DoFnData.alone(_Same()), step.windowing(step.input).windowfn
        return step.block_operation(IdentityOperation, data, window_fn)


class _Same(beam.DoFn):
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

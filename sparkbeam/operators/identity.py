"""Steps that hand on elements as they are: a Flatten, and what gives its inputs one coder."""

from typing import Any, Self

import apache_beam as beam
from apache_beam.runners.worker import operations
from apache_beam.runners.worker.bundle_processor import IDENTITY_DOFN_URN
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.plan.operator import Operator
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.plan.urns import FLATTEN
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.steps.block_operation import BlockOperation
from sparkbeam.worker.steps.step import DoFnData, Step


class Identity(Operator):
    """Elements that are handed on unchanged."""

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        return cls(step.label) if step.urn in (IDENTITY_DOFN_URN, FLATTEN) else None

    @property
    def hands_on(self) -> bool:
        return True

    def run(self, step: Step) -> operations.Operation:
        (output,) = step.transform.outputs.values()
        windowing = step.windowing(output)
        data = DoFnData(_Same(), (), {}, [], windowing)
        return step.block_operation(IdentityOperation, data, windowing.windowfn)


class _Same(beam.DoFn):
    """A DoFn that emits its elements."""

    def process(self, element: Any) -> tuple[Any]:
        return (element,)


class IdentityOperation(BlockOperation):
    """Operation that emits elements and blocks unchanged."""

    def process(self, o: WindowedValue) -> None:
        """Emit an element."""
        with self.scoped_process_state:
            self._emitter.single(o)

    def process_block(self, block: Block) -> None:
        """Emit many elements."""
        with self.scoped_process_state:
            self._emitter.block(block)

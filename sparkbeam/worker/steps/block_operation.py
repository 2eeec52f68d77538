"""The base of operations that run a DoFn over blocks."""

from typing import Any

from apache_beam.runners.worker import operations
from apache_beam.transforms.window import WindowFn

from sparkbeam.plan.operator import Operator
from sparkbeam.worker.emitter import Emitter


class BlockOperation(operations.DoOperation):
    """A step with one output that takes or emits blocks, made by :meth:`.Step.block_operation`.

    Attributes:
        takes_assigned: True if it takes blocks with assigned windows, and emits them likewise.
    """

    readers: list[operations.Operation]
    window_fn: WindowFn
    operator: Operator
    takes_assigned = True

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._emitter = Emitter(self.readers, self.receivers[0])

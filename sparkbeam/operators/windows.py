"""The assignment of windows, as in ``WindowInto``."""

from typing import Self

from apache_beam.runners.worker import operations
from apache_beam.transforms import core
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
)
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.plan.operator import Operator
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.plan.urns import ASSIGN_WINDOWS
from sparkbeam.worker.blocks import Block, windows_at
from sparkbeam.worker.refusals import count_refused_by
from sparkbeam.worker.slots import in_slots
from sparkbeam.worker.steps.block_operation import BlockOperation
from sparkbeam.worker.steps.step import DoFnData, Step

_OTHER = "its WindowFn needs more than the timestamp"
_BY_TIMESTAMP = (GlobalWindows, FixedWindows, SlidingWindows, Sessions)
"""The WindowFns that ask for the timestamp alone."""


class Windows(Operator):
    """The assignment of windows."""

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        if step.urn != ASSIGN_WINDOWS:
            return None
        is_known = type(step.windowing.windowfn) in _BY_TIMESTAMP
        return cls(step.label, None if is_known else _OTHER)

    @property
    def hands_on(self) -> bool:
        return self.reason is None

    def run(self, step: Step) -> operations.Operation:
        (output,) = step.transform.outputs.values()
        window_fn = step.windowing(output).windowfn
        fn = core.WindowInto.WindowIntoFn(core.Windowing(window_fn))
        made = step.block_operation(WindowOperation, DoFnData.alone(fn), window_fn)
        made.takes_assigned = self.reason is None
        return made


class WindowOperation(BlockOperation):
    """Window assignment, once per block if windows depend on the timestamp alone."""

    def process_block(self, block: Block) -> None:
        """Assign values the windows of their timestamps."""
        if self.operator.reason is not None:
            if block.column is not None:
                count_refused_by(self, self.operator.reason)
            for element in block.elements():
                self.process(element)
            return
        with self.scoped_process_state:
            may_be_many = isinstance(block.assigned, SlidingWindows)
            for part in in_slots(block) if may_be_many else (block,):
                windowed = self._windowed(part)
                # In each window that they are in, the values are elements of their own.
                for _ in part.windowing.windows:
                    self._emitter.block(windowed)

    def _windowed(self, block: Block) -> Block:
        if block.is_stamped and type(self.window_fn) is not GlobalWindows:
            return block.with_assigned(self.window_fn)
        time = block.windowing.timestamp
        windows = windows_at(self.window_fn, time.micros)
        return block.with_windowing(WindowedValue(None, time, windows))

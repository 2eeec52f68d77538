"""The assignment of windows, as in ``WindowInto``.

Beam's own WindowFns ask for the timestamp alone, and so need no columns. Any other one whose
windows are intervals is compiled, like a function of the element and the timestamp.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.runners.worker import operations
from apache_beam.transforms import core
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    WindowFn,
)
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.columns import Compiled, Shape
from sparkbeam.columns.python_types import INT
from sparkbeam.plan.operator import Operator, Result
from sparkbeam.plan.pardo_functions import Arguments, Windowing, over_columns
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.plan.urns import ASSIGN_WINDOWS
from sparkbeam.worker.blocks import Block, windows_at
from sparkbeam.worker.intervals import Intervals
from sparkbeam.worker.slots import in_slots
from sparkbeam.worker.steps.block_operation import BlockOperation
from sparkbeam.worker.steps.column_functions import ColumnFunction
from sparkbeam.worker.steps.step import DoFnData, Step
from sparkbeam.worker.value_columns import column_of

_OTHER = "its WindowFn has windows that are not intervals"
_BY_TIMESTAMP = (GlobalWindows, FixedWindows, SlidingWindows, Sessions)
"""The WindowFns that ask for the timestamp alone."""

_TIMED = Arguments([], {"timestamp": Windowing.TIME})


@dataclass(frozen=True)
class Windows(Operator):
    """The assignment of windows.

    Attributes:
        by_timestamp: the WindowFn is one of Beam's, which ask for the timestamp alone.
    """

    by_timestamp: bool = False

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        if step.urn != ASSIGN_WINDOWS:
            return None
        window_fn = step.windowing.windowfn
        if type(window_fn) in _BY_TIMESTAMP:
            return cls(step.label, by_timestamp=True)
        in_intervals = isinstance(window_fn.get_window_coder(), IntervalWindowCoder)
        return cls(step.label, None if in_intervals else _OTHER)

    @property
    def hands_on(self) -> bool:
        return self.by_timestamp

    def output_type(self, step: PlannedStep, shape: Shape) -> Result:
        if self.reason is not None:
            return super().output_type(step, shape)
        bounds = _bounds_of(step.windowing.windowfn)
        compiled = over_columns(bounds, shape, arguments=_TIMED, may_stamp=False)
        return replace(compiled, result=shape) if isinstance(compiled, Compiled) else compiled

    def run(self, step: Step) -> operations.Operation:
        (output,) = step.transform.outputs.values()
        window_fn = step.windowing(output).windowfn
        fn = core.WindowInto.WindowIntoFn(core.Windowing(window_fn))
        made = step.block_operation(WindowOperation, DoFnData.alone(fn), window_fn)
        made.takes_assigned = self.reason is None
        return made


def _bounds_of(window_fn: WindowFn) -> Callable[[Any, Timestamp], Iterator[tuple[int, int]]]:
    """Return a function that yields the bounds of an element's only window."""
    assign, context = window_fn.assign, WindowFn.AssignContext

    def bounds(element: Any, timestamp: Timestamp) -> Iterator[tuple[int, int]]:
        (window,) = assign(context(timestamp, element))
        yield window.start.micros, window.end.micros

    return bounds


class WindowOperation(BlockOperation):
    """Window assignment, once per block if windows depend on the timestamp alone."""

    operator: Windows

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        bounds = _bounds_of(self.window_fn) if self.operator.reason is None else None
        why = self.operator.reason or ""
        self._bounds = ColumnFunction(bounds, lambda: why, may_stamp=False, arguments=_TIMED)

    def process_block(self, block: Block) -> None:
        """Assign windows to values."""
        if not self.operator.by_timestamp:
            in_several = isinstance(block.assigned, WindowFn)
            for part in in_slots(block) if in_several else (block,):
                self._assign_each(part)
            return
        with self.scoped_process_state:
            may_be_many = isinstance(block.assigned, SlidingWindows)
            for part in in_slots(block) if may_be_many else (block,):
                windowed = self._windowed(part)
                # In each window that they are in, the values are elements of their own.
                for _ in part.windowing.windows:
                    self._emitter.block(windowed)

    def _assign_each(self, block: Block) -> None:
        """Assign windows that depend on the element, too."""
        with self.scoped_process_state:
            found = None
            if block.column is not None:
                time = column_of(pa.array(block.time_column()), INT)
                found = self._bounds.over(block, time)
            if found is not None:
                assert found.column is not None
                bounds = (found.column.array.field(at).to_numpy() for at in (0, 1))
                windowed = block.with_assigned(Intervals(*bounds))
                for _ in block.windowing.windows:
                    self._emitter.block(windowed)
                return
        for element in block.elements():
            self.process(element)

    def _windowed(self, block: Block) -> Block:
        if block.is_stamped and type(self.window_fn) is not GlobalWindows:
            return block.with_assigned(self.window_fn)
        time = block.windowing.timestamp
        windows = windows_at(self.window_fn, time.micros)
        return block.with_windowing(WindowedValue(None, time, windows))

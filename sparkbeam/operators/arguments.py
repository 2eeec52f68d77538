"""Plain functions with further arguments, constant or from side inputs.

Beam's own operation looks up the side inputs for each element. This one does it once for the
elements of a block that share their window. Over columns each side input is a column as well, with
the value for each element.
"""

from collections.abc import Callable, Iterable
from typing import Any, Self

import apache_beam as beam
from apache_beam.portability import python_urns
from apache_beam.runners.worker import operations
from apache_beam.transforms.window import BoundedWindow, GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.columns import Compiled, Refused, Shape
from sparkbeam.columns.python_types import FLOAT, INT, NONE, STR, Table
from sparkbeam.operators.dofn import window_by_window
from sparkbeam.operators.function import FunctionOperation, output_of
from sparkbeam.plan.memo import memoized
from sparkbeam.plan.operator import Operator, Result
from sparkbeam.plan.pardo_functions import (
    Arguments,
    is_plain,
    loaded,
    over_columns,
    par_do_payload,
    plain_function,
)
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.wire.failure import UserCodeFailed
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.lookup_tables import Tables
from sparkbeam.worker.refusals import SCATTERED, count_refused
from sparkbeam.worker.slots import are_scattered, in_slots, single_windows
from sparkbeam.worker.steps.step import Step
from sparkbeam.worker.value_columns import Column, column_of_values

_SIDE_INPUTS: tuple[Shape, ...] = (
    *(INT, FLOAT, STR),
    *(Table(dict, key, value) for key in (INT, STR) for value in (INT, STR)),
    *(Table(list, key, NONE) for key in (INT, STR)),
)
"""Types that side inputs may have."""


class FunctionWithArguments(Operator):
    """A function of the element and further arguments."""

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        has_some = is_plain(step.transform) and _in_payload(step.payload) is not None
        return cls(step.label) if has_some else None

    def output_type(self, step: PlannedStep, shape: Shape) -> Result:
        found = _compiled(step.payload, shape, step.is_global)
        compiled = [one for one in found if isinstance(one, Compiled)]
        if compiled and len({one.result for one in compiled}) > 1:
            return None
        return compiled[0] if compiled else found[0]

    def run(self, step: Step) -> operations.Operation:
        fn, args, kwargs, *_ = step.dofn
        operation = step.block_operation(ArgumentOperation)
        operation.over_columns = fn.process
        operation.ask(Arguments(list(args), dict(kwargs)), fn.process)
        return operation


def _in_payload(payload: bytes) -> tuple[beam.DoFn, Arguments] | None:
    """Return the function and the arguments of a ParDo that has some; None for any other."""
    do_fn = par_do_payload(payload).do_fn
    if do_fn.urn != python_urns.PICKLED_DOFN_INFO:
        return None
    fn, args, kwargs = loaded(do_fn.payload)[:3]
    if not (args or kwargs) or plain_function(fn) is None:
        return None
    return fn, Arguments(list(args), dict(kwargs))


@memoized
def _compiled(payload: bytes, shape: Shape, may_stamp: bool) -> list[Compiled | Refused]:
    """Compile a function of further arguments for each type that its side inputs may have."""
    found = _in_payload(payload)
    assert found is not None
    fn, arguments = found
    return [
        over_columns(fn.process, shape, *sides, arguments=arguments, may_stamp=may_stamp)
        for sides in dict.fromkeys((kind,) * arguments.sides for kind in _SIDE_INPUTS)
    ]


class ArgumentOperation(FunctionOperation):
    """A plain function of the element and further arguments."""

    one_to_one = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        *_, self._sides, _ = args
        self._tables = Tables()

    def ask(self, arguments: Arguments, process: Callable[..., Iterable[Any] | None]) -> None:
        """Set the function to call and its arguments."""
        self.arguments = arguments
        self._process = process
        self.function = self._call

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._by_window = not all(side.is_globally_windowed() for side in self._sides)

    def process(self, o: WindowedValue) -> None:
        """Process an element."""
        self.process_block(Block(o, [o.value]))

    def process_block(self, block: Block) -> None:
        """Process elements, in each of their windows if these have side inputs of their own."""
        with self.scoped_process_state:
            if not self._by_window or block.assigned is None:
                self._process_alike(block)
                return
            results = self._over_windows(block)
            if results is not None:
                self._emitter.block(results)
            elif are_scattered(block):
                if block.column is not None:
                    count_refused(SCATTERED)
                for element in block.elements():
                    self._process_alike(Block(element, [element.value]))
            else:
                for part in in_slots(block):
                    self._process_alike(part)

    def _process_alike(self, block: Block) -> None:
        """Process elements that have the same side inputs."""
        whole = block.windowing
        for single in window_by_window(whole) if self._by_window else (whole,):
            part = block if single is whole else block.with_windowing(single)
            sides = self._look_up(single)
            results = self._over_columns(part, sides)
            if results is not None:
                self._emitter.block(results)
            else:
                self._given = self.arguments.filled(sides)
                output = output_of(self, single, part.stamps, part.assigned)
                self._flat_map(part.values, output)

    def _look_up(self, template: WindowedValue) -> list[Any]:
        """Return the side inputs of elements."""
        window: BoundedWindow = GlobalWindow()
        if self._by_window:
            (window,) = template.windows
        try:
            return [side[window] for side in self._sides]
        except Exception as error:
            raise UserCodeFailed(self.name_context.step_name) from error

    def _over_columns(self, block: Block, sides: list[Any]) -> Block | None:
        if block.column is None:
            return None
        columns = self._columns_of([sides], len(block))
        if columns is None:
            count_refused("a side input is no column")
            return None
        return self._columns.over(block, *columns)

    def _over_windows(self, block: Block) -> Block | None:
        """Return the results for elements of several windows; None to process them one by one."""
        if block.column is None:
            return None
        found = single_windows(block)
        if found is None:
            return None
        templates, places = found
        columns = self._columns_of(list(map(self._look_up, templates)), len(block))
        return None if columns is None else self._columns.over(block, *columns, places=places)

    def _columns_of(self, found: list[list[Any]], count: int) -> list[Column] | None:
        """Return a column of values per side input; None if there is none.

        Args:
            found: the side inputs, one time after the other.
            count: the number of elements.
        """
        columns = [
            column_of_values(list(values)) or self._tables.of(number, values, count)
            for number, values in enumerate(zip(*found, strict=True))
        ]
        known = [column for column in columns if column is not None]
        return known if len(known) == len(columns) else None

    def _call(self, value: Any) -> Any:
        return self._process(value, *self._given.by_position, **self._given.by_name)

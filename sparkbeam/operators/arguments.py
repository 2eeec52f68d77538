"""Plain functions with further arguments: constants, side inputs, the window, the timestamp.

Beam's own operation looks up the side inputs for each element. This one does it once for the
elements of a block that share their window. Over columns each side input is a column as well, with
the value for each element, and so are the bounds of the window and the timestamp.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.portability import python_urns
from apache_beam.runners.worker import operations
from apache_beam.transforms import core
from apache_beam.transforms.window import (
    BoundedWindow,
    GlobalWindow,
    IntervalWindow,
)
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.columns import Compiled, DataDependent, Refused, Shape
from sparkbeam.columns.python_types import FLOAT, INT, NONE, STR, Table
from sparkbeam.columns.vectors import Positions
from sparkbeam.operators.dofn import window_by_window
from sparkbeam.operators.function import FunctionOperation, output_of
from sparkbeam.operators.process import process_of
from sparkbeam.plan.memo import memoized
from sparkbeam.plan.operator import Operator, Result
from sparkbeam.plan.pardo_functions import (
    Arguments,
    Windowing,
    has_process_alone,
    is_plain,
    loaded,
    over_columns,
    par_do_payload,
)
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.upstream.beam import is_filled_in
from sparkbeam.wire.failure import UserCodeFailed
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.intervals import Intervals
from sparkbeam.worker.lookup_tables import Tables
from sparkbeam.worker.refusals import SCATTERED, count_refused
from sparkbeam.worker.slots import are_scattered, in_slots, single_windows
from sparkbeam.worker.steps.step import Step
from sparkbeam.worker.value_columns import Column, column_of, column_of_values

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
        window_coder = step.windowing.windowfn.get_window_coder()
        in_intervals = isinstance(window_coder, IntervalWindowCoder)
        found = _compiled(step.payload, shape, step.is_global, in_intervals)
        compiled = [one for one in found if isinstance(one, Compiled)]
        if compiled and len({one.result for one in compiled}) > 1:
            return None
        return compiled[0] if compiled else found[0]

    def run(self, step: Step) -> operations.Operation:
        fn, args, kwargs, *_ = step.dofn
        operation = step.block_operation(ArgumentOperation)
        operation.over_columns = fn.process
        arguments = _arguments_of(fn, args, kwargs)
        assert arguments is not None
        operation.ask(arguments, process_of(fn))
        return operation


def _in_payload(payload: bytes) -> tuple[beam.DoFn, Arguments] | None:
    """Return the function and the arguments of a ParDo that has some; None for any other."""
    do_fn = par_do_payload(payload).do_fn
    if do_fn.urn != python_urns.PICKLED_DOFN_INFO:
        return None
    fn, args, kwargs = loaded(do_fn.payload)[:3]
    arguments = _arguments_of(fn, args, kwargs)
    return None if arguments is None else (fn, arguments)


def _arguments_of(
    fn: beam.DoFn, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Arguments | None:
    """Return the arguments of a DoFn's ``process``; None if it has none, or has others.

    Args:
        args: the arguments that the user has given by position.
    """
    is_wrapper = isinstance(fn, core.CallableWrapperDoFn)
    if not is_wrapper and (args or kwargs or not has_process_alone(fn)):
        return None
    names, defaults = core.get_function_arguments(fn, "process")
    late = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    asked = {name: _windowing(default) for name, default in late.items() if is_filled_in(default)}
    if None in asked.values() or asked.keys() & kwargs.keys():
        return None
    if asked and len(args) > len(names) - len(defaults) - 1:
        return None  # Beam gives the last ones to other parameters than Python does.
    found = Arguments(list(args), {**kwargs, **asked})
    return found if any(found) else None


def _windowing(default: Any) -> Windowing | None:
    """Return the argument that a default stands for; None for others."""
    if core.DoFn.WindowParam == default:
        return Windowing.WINDOW
    return Windowing.TIME if core.DoFn.TimestampParam == default else None


@memoized
def _compiled(
    payload: bytes, shape: Shape, may_stamp: bool, in_intervals: bool
) -> list[Compiled | Refused | DataDependent]:
    """Compile a function of further arguments for each type that its side inputs may have."""
    found = _in_payload(payload)
    assert found is not None
    fn, arguments = found
    if arguments.asks_for(Windowing.WINDOW) and not in_intervals:
        return [Refused("it uses a window that is not an IntervalWindow")]
    return [
        over_columns(fn.process, shape, *sides, arguments=arguments, may_stamp=may_stamp)
        for sides in dict.fromkeys((kind,) * arguments.sides for kind in _SIDE_INPUTS)
    ]


class ArgumentOperation(FunctionOperation):
    """A plain function of the element and further arguments.

    Over columns these are, in this order, the side inputs, start and end of the window, and the
    timestamp.
    """

    one_to_one = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        *_, self._sides, _ = args
        self._tables = Tables()

    def ask(self, arguments: Arguments, process: Callable[..., Iterable[Any] | None]) -> None:
        """Set the function to call and its arguments."""
        self.arguments = arguments
        self._process = process
        self._timed = [name for name, one in arguments.by_name.items() if one is Windowing.TIME]
        self.function = self._call_in_time if self._timed else self._call

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._asks_for_window = self.arguments.asks_for(Windowing.WINDOW)
        self._by_window = self._asks_for_window or not all(
            side.is_globally_windowed() for side in self._sides
        )

    def process(self, o: WindowedValue) -> None:
        """Process an element."""
        self.process_block(Block(o, [o.value]))

    def process_block(self, block: Block) -> None:
        """Process elements, in each of their windows if the arguments depend on it."""
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
        """Process elements that have the same side inputs, and the same window if it matters."""
        whole = block.windowing
        for single in window_by_window(whole) if self._by_window else (whole,):
            part = block if single is whole else block.with_windowing(single)
            sides = self._side_values(single)
            results = self._over_columns(part, sides)
            if results is not None:
                self._emitter.block(results)
            else:
                self._call_for(part, sides)

    def _call_for(self, block: Block, sides: list[Any]) -> None:
        """Call the function for each element of a block; only their timestamps may differ."""
        template = block.windowing
        windowing: dict[Windowing, Any] = {Windowing.TIME: template.timestamp}
        if self._asks_for_window:
            (windowing[Windowing.WINDOW],) = template.windows
        self._given = self.arguments.filled(sides, windowing)
        if self._timed:
            self._times = block.timestamps()
        self._flat_map(block.values, output_of(self, template, block.stamps, block.assigned))

    def _side_values(self, template: WindowedValue) -> list[Any]:
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
        places = np.zeros(len(block), np.int64)
        columns = self._columns_of([sides], places)
        if columns is None:
            count_refused("a side input is not a column")
            return None
        return self._in_windows(block, columns, [block.windowing], places)

    def _in_windows(
        self, block: Block, sides: list[Column], templates: list[WindowedValue], places: Positions
    ) -> Block | None:
        """Return the results for elements.

        Args:
            sides: the side inputs of each.
            templates: have one window each, if it matters.
            places: the index of each element's template.
        """
        if not self._asks_for_window:
            return self._over(block, sides)
        bounds = _bounds_of([window for one in templates for window in one.windows], places)
        return None if bounds is None else self._over(block, sides, bounds)

    def _over(
        self, block: Block, sides: list[Column], bounds: Intervals | None = None
    ) -> Block | None:
        """Return the results for elements.

        Args:
            sides: the side inputs of each.
            bounds: the window of each; None if it does not matter.
        """
        times = [] if bounds is None else [bounds.starts, bounds.ends]
        if self._timed:
            times.append(block.time_column())
        of_time = (column_of(pa.array(micros), INT) for micros in times)
        return self._columns.over(block, *sides, *of_time)

    def _over_windows(self, block: Block) -> Block | None:
        """Return the results for elements of several windows; None to process them one by one."""
        if block.column is None:
            return None
        if not self._sides and isinstance(block.assigned, Intervals):
            return self._over(block, [], block.assigned)
        found = single_windows(block)
        if found is None:
            return None
        templates, places = found
        columns = self._columns_of(list(map(self._side_values, templates)), places)
        return None if columns is None else self._in_windows(block, columns, templates, places)

    def _columns_of(self, found: list[list[Any]], places: Positions) -> list[Column] | None:
        """Return a column of values per side input; None if there is none.

        Args:
            found: the side inputs, one time after the other.
            places: the index of each element's side inputs.
        """
        columns = [
            column_of_values(list(values)) or self._tables.of(number, values, len(places))
            for number, values in enumerate(zip(*found, strict=True))
        ]
        known = [column.take(places) for column in columns if column is not None]
        return known if len(known) == len(columns) else None

    def _call(self, value: Any) -> Any:
        return self._process(value, *self._given.by_position, **self._given.by_name)

    def _call_in_time(self, value: Any) -> Any:
        time = next(self._times)
        for name in self._timed:
            self._given.by_name[name] = time
        return self._call(value)


def _bounds_of(windows: Sequence[BoundedWindow], places: Positions) -> Intervals | None:
    """Return the bounds of windows; None if they are no intervals.

    Args:
        places: the index of each element's window.
    """
    if not all(type(window) is IntervalWindow for window in windows):
        count_refused("a window is not an IntervalWindow")
        return None
    starts = np.array([window.start.micros for window in windows], np.int64)
    ends = np.array([window.end.micros for window in windows], np.int64)
    return Intervals(starts, ends).take(places)

"""Functions of the element, as in ``Map``, ``FlatMap`` and ``Filter``."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Self

import numpy as np
from apache_beam.pvalue import TaggedOutput
from apache_beam.runners.worker import operations
from apache_beam.transforms import core
from apache_beam.transforms.window import (
    GlobalWindows,
    TimestampedValue,
    WindowFn,
)
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.columns import Compiled, DataDependent, RecordShape, Refused, Shape
from sparkbeam.columns.python_types import Lists
from sparkbeam.plan.memo import memoized
from sparkbeam.plan.operator import Operator, Result
from sparkbeam.plan.pardo_functions import ALONE, Arguments, function_in, one_to_one, over_columns
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.upstream.beam import KeyWithNone, collecting_of_cogroup, tags_of_cogroup
from sparkbeam.wire.failure import UserCodeFailed
from sparkbeam.worker.blocks import (
    BLOCK_BYTES,
    GLOBAL,
    LOOK,
    SMALLEST_BLOCK,
    Assigned,
    Block,
    BlockLimit,
    is_heavy,
)
from sparkbeam.worker.intervals import Intervals
from sparkbeam.worker.object_sizes import size_of
from sparkbeam.worker.row_formats.key_table import IMMUTABLE
from sparkbeam.worker.slots import parts_of
from sparkbeam.worker.steps.block_operation import BlockOperation
from sparkbeam.worker.steps.column_functions import ColumnFunction
from sparkbeam.worker.steps.one_to_one import OneToOne
from sparkbeam.worker.steps.ownership import OF_A_RESULT, OF_RESULTS, all_may_wait, may_wait
from sparkbeam.worker.steps.step import Step
from sparkbeam.worker.steps.tagged_lists import TaggedLists

_COLLECTIONS = frozenset([list, tuple, set, frozenset])
_UNCHANGING = frozenset([range, str, bytes])
_WRAPPERS = (WindowedValue, TimestampedValue, TaggedOutput)
_TIMESTAMPED = {TimestampedValue}
_END = object()
_MEASURED = 8


class Function(Operator):
    """A function of the element."""

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        is_one = isinstance(step.function, core.CallableWrapperDoFn | KeyWithNone)
        return cls(step.label) if is_one else None

    def output_type(self, step: PlannedStep, shape: Shape) -> Result:
        fn = step.function
        tags = None if fn is None else tags_of_cogroup(fn.process)
        if tags is not None:
            return _by_tag(shape, tags, step.tagged)
        return _compiled(step.payload, shape, step.is_global)

    def run(self, step: Step) -> operations.Operation:
        return make_function(FunctionOperation, step)


@memoized
def _compiled(payload: bytes, shape: Shape, may_stamp: bool) -> Compiled | Refused | DataDependent:
    """Compile the function of a ParDo, given by its payload."""
    fn = function_in(payload)
    assert fn is not None
    return over_columns(fn.process, shape, may_stamp=may_stamp)


def _by_tag(group: Shape, tags: tuple[str, ...], tagged: Mapping[str, Shape]) -> RecordShape | None:
    """Return the shape of a CoGroupByKey's group with its values by tag; None if it is unknown.

    Args:
        group: the shape of the group before.
        tagged: the shape of the values of each tag.
    """
    if not isinstance(group, RecordShape) or not tagged.keys() >= set(tags):
        return None
    lists = tuple(Lists(tagged[tag]) for tag in tags)
    return RecordShape(tuple, group.names, (group.fields[0], RecordShape(dict, tags, lists)))


class FunctionOperation(BlockOperation):
    """A plain function over elements; single ones are processed as in Beam.

    Attributes:
        function: from an element to any number of results.
        over_columns: the function as written by the user, if it may be evaluated over columns.
        tags: all tags, if it collects the values of a ``CoGroupByKey`` by tag.
        one_to_one: maps an element to its only result, if it is a ``Map``.
        makes_new: see :class:`OneToOne`.
    """

    function: Callable[[Any], Iterable[Any] | None]
    over_columns: Callable[..., Iterable[Any] | None] | None = None
    arguments: Arguments = ALONE
    tags: tuple[str, ...] | None = None
    one_to_one: Callable[[Any], Any] | None
    makes_new = False

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._kinds: dict[type, bool] = {}
        self._limit = BlockLimit()
        self._look = 0
        self._is_global = type(self.window_fn) is GlobalWindows
        self._columns = ColumnFunction(
            self.over_columns, self.why, may_stamp=self._is_global, arguments=self.arguments
        )
        tagged = None if self.tags is None else TaggedLists(self.tags)
        self._evaluate = self._columns.over if tagged is None else tagged.over
        if self.one_to_one is not None:
            label = self.name_context.step_name
            self._each = OneToOne(
                self.one_to_one, label, self._limit, makes_new=self.makes_new
            ).over

    def start(self) -> None:
        self._limit.forget()
        super().start()

    def why(self) -> str:
        """Return why the function is called per element, if it has no form over columns."""
        return self.operator.reason or ""

    def process(self, o: WindowedValue) -> None:
        """Start a block if a single element has many results."""
        if self.one_to_one is not None:
            super().process(o)
            return
        with self.scoped_process_state:
            self._flat_map([o.value], Output(self, o))

    def process_block(self, block: Block) -> None:
        """Apply the function to each of the values."""
        with self.scoped_process_state:
            results = self._evaluate(block)
            if results is not None:
                self._emitter.block(results)
                return
            if self.one_to_one is None:
                windowing, assigned = block.windowing, block.assigned
                self._flat_map(block.values, output_of(self, windowing, block.stamps, assigned))
                return
            for part in self._each(block):
                self.emit(part)

    def _flat_map(self, values: list[Any], output: "Output") -> None:
        function = self.function
        block: list[Any] = []
        self._look = 0
        results: Any
        for value in values:
            try:
                results = function(value)
                is_collection = type(results) in _COLLECTIONS
                if not is_collection:
                    iterator = iter(()) if results is None else iter(results)
            except Exception as error:
                raise UserCodeFailed(self.name_context.step_name) from error
            if is_collection and not results:
                pass
            elif is_collection and len(results) <= self._limit.values:
                may_stay = all_may_wait(results, value, OF_RESULTS)
                block += results
                if may_stay:
                    block = self._full_emitted(block, output)
                else:
                    output.emit(block)
                    block, self._look = [], 0
            elif is_collection and all_may_wait(results, value, OF_RESULTS):
                block = self._in_parts(iter(results), block, output)
            elif type(results) in _UNCHANGING:
                block = self._in_parts(iterator, block, output)
            else:
                some = iter(results) if is_collection else iterator
                block = self._emitted_as_it_comes(some, value, block, output)
            if isinstance(output, StampedOutput):
                output.end_element(block)
        output.emit(block)

    def _in_parts(self, results: Iterator[Any], block: list[Any], output: "Output") -> list[Any]:
        """Emit results that may wait; return the block that is open then."""
        while part := list(islice(results, self._limit.values)):
            block += part
            block = self._full_emitted(block, output)
        return block

    def _emitted_as_it_comes(
        self, results: Iterator[Any], element: Any, block: list[Any], output: "Output"
    ) -> list[Any]:
        """Emit results that are not finished when yielded; return the block that is open then."""
        while True:
            try:
                value = next(results, _END)
            except Exception as error:
                raise UserCodeFailed(self.name_context.step_name) from error
            if value is _END:
                return block
            block.append(value)
            if (
                len(block) >= self._limit.values
                or not (type(value) in IMMUTABLE or may_wait(value, element, OF_A_RESULT))
                or (len(block) >= output.look and not output.has_room(block))
            ):
                output.emit(block)
                block, self._look = [], 0

    def _full_emitted(self, block: list[Any], output: "Output") -> list[Any]:
        if len(block) < self._look:
            return block
        if len(block) < self._limit.values and not (block and is_heavy(block)):
            self._look = min(len(block) + LOOK, self._limit.values)
            return block
        output.emit(block)
        self._look = 0
        return []

    def emit(self, block: Block) -> None:
        """Emit results, some of which may bring another windowing."""
        values = block.values
        if values and (len(values) >= SMALLEST_BLOCK or self._limit.values < SMALLEST_BLOCK):
            self._limit.learn(values)
        if len(values) >= SMALLEST_BLOCK:
            kinds = set(map(type, values))
            windows = block.windowing.windows
            if kinds == _TIMESTAMPED and self._is_global and len(windows) == 1:
                times = [value.timestamp.micros for value in values]
                self._emitter.block(Block(GLOBAL, [value.value for value in values], times))
                return
            if not any(map(self._is_wrapper, kinds)):
                self._emitter.block(block)
                return
        for part in parts_of(block):
            for element in part.elements():
                self._emit_wrapped(element, element.value)

    def emit_few(self, template: WindowedValue, values: list[Any]) -> None:
        """Emit results that share their windowing, and are too few for a block."""
        if values and self._limit.values < SMALLEST_BLOCK:
            self._limit.learn(values)
        for value in values:
            self._emit_wrapped(template, value)

    def _is_wrapper(self, kind: type) -> bool:
        known = self._kinds.get(kind)
        if known is None:
            known = self._kinds[kind] = issubclass(kind, _WRAPPERS)
        return known

    def _emit_wrapped(self, template: WindowedValue, value: Any) -> None:
        """Emit a result that may bring its own timestamp or windows."""
        if isinstance(value, TaggedOutput):
            return  # Nobody reads the tag, or the operation would have several outputs.
        if isinstance(value, TimestampedValue):
            context = WindowFn.AssignContext(value.timestamp, value.value)
            try:
                windows = tuple(self.window_fn.assign(context))
            except Exception as error:
                raise UserCodeFailed(self.name_context.step_name) from error
            value = WindowedValue(value.value, value.timestamp, windows)
        elif not isinstance(value, WindowedValue):
            self._emitter.single(template.with_value(value))
            return
        # The function stands for one that is called in each window of its element.
        windows = tuple(value.windows) * len(template.windows)
        self._emitter.single(WindowedValue(value.value, value.timestamp, windows, value.pane_info))


class Output:
    """Results for elements with the same windowing.

    Args:
        assigned: assigns the windows; None if the template has them.

    Attributes:
        look: the number of values at which a block is measured again.
    """

    __slots__ = ("_assigned", "_operation", "_room", "_template", "look")

    def __init__(
        self,
        operation: FunctionOperation,
        template: WindowedValue,
        assigned: Assigned | None = None,
    ) -> None:
        self._operation = operation
        self._template = template
        self._assigned = assigned
        self._clear()

    def _clear(self) -> None:
        self._room, self.look = BLOCK_BYTES, 0

    def has_room(self, block: list[Any]) -> bool:
        """Return whether the values of a block take little memory, by its last one."""
        self._room -= _MEASURED * size_of(block[-1])
        self.look = len(block) + _MEASURED
        return self._room > 0

    def emit(self, block: list[Any]) -> None:
        """Emit results; later ones are in another list."""
        self._clear()
        if self._assigned is None and len(block) < SMALLEST_BLOCK:
            self._operation.emit_few(self._template, block)
        else:
            self._operation.emit(Block(self._template, block, None, self._assigned))


class StampedOutput(Output):
    """Results for elements with individual timestamps.

    Args:
        operation, template, assigned: see :class:`Output`.
        stamps: the timestamps of the elements, in microseconds.
    """

    __slots__ = ("_done", "_rows", "_stamps")

    def __init__(
        self,
        operation: FunctionOperation,
        template: WindowedValue,
        stamps: list[int],
        assigned: Assigned | None = None,
    ) -> None:
        super().__init__(operation, template, assigned)
        self._stamps = stamps
        self._done = 0
        self._rows: list[int] = []

    def end_element(self, block: list[Any]) -> None:
        """Record that ``block`` has the results for one more element."""
        self._fill(block)
        self._done += 1

    def emit(self, block: list[Any]) -> None:
        self._clear()
        self._operation.emit(self._of_results(block))

    def _of_results(self, results: list[Any]) -> Block:
        """Return a block of results for elements that have been done, with their windowing."""
        self._fill(results)
        rows, self._rows = self._rows, []
        stamps = self._stamps
        assigned = self._assigned
        if isinstance(assigned, Intervals):
            assigned = assigned.take(np.array(rows, np.int64))
        return Block(self._template, results, [stamps[row] for row in rows], assigned)

    def _fill(self, block: list[Any]) -> None:
        """Record that the new results in the block belong to the current element."""
        self._rows += [self._done] * (len(block) - len(self._rows))


def output_of(
    operation: FunctionOperation,
    template: WindowedValue,
    stamps: list[int] | None,
    assigned: Assigned | None = None,
) -> Output:
    """Return the output that takes the results, for elements with or without own timestamps."""
    if stamps is None:
        return Output(operation, template, assigned)
    return StampedOutput(operation, template, stamps, assigned)


def make_function(kind: type[FunctionOperation], step: Step) -> operations.DoOperation:
    """Make the operation of a function of the element alone."""
    fn, operation = step.dofn.fn, step.block_operation(kind)
    operation.function = operation.over_columns = fn.process
    collecting = collecting_of_cogroup(fn.process)
    operation.makes_new = collecting is not None
    operation.tags = tags_of_cogroup(fn.process)
    operation.one_to_one = collecting or one_to_one(fn.process)
    return operation

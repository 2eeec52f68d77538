"""Blocks: many values that share timestamp, windows and pane, processed in one call.

Beam's operations take one element at a time, and for a ``Map`` of a few
instructions that call is nearly all of its cost. Most elements of a batch
pipeline share their windowing with their neighbours, so sparkbeam's operations
hand on lists of values, as far as the next operation understands them:

- Plain functions (``Map``, ``FlatMap``, ``Filter`` and the like without any DoFn
  parameter, side input or tagged output) run over the list.
- The map side of a combine adds a key's values to its accumulator at once.
- Sources and sinks read and write runs of values.

Everything else gets the elements one by one, as Beam does it.

A function may put out an object and change it afterwards, so what a generator
yields joins a block only if it is immutable. What comes from different calls,
or from a finished list, always may.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import apache_beam as beam
from apache_beam.internal import pickler
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.pvalue import TaggedOutput
from apache_beam.runners import common
from apache_beam.runners.worker import bundle_processor, operation_specs, operations
from apache_beam.transforms import core
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampedValue,
    WindowFn,
)
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.plan.model import CREATE_URN, FUNCTION_URN, PRECOMBINE_URN, WINDOW_URN
from sparkbeam.worker.failure import UserCodeFailed
from sparkbeam.worker.tables import IMMUTABLE

BLOCK_SIZE = 2000
"""The most values in a block."""

BLOCK_BYTES = 1 << 20
"""A block has fewer values where they would take more than about this."""

_SMALLEST_BLOCK = 4
_MAX_KEYS = 100_000
_MAX_BUFFERED = 200_000
_MAX_BUFFERED_BYTES = 32 << 20
_FINISHED = frozenset([list, tuple, range, set, frozenset, str, bytes])
_WRAPPERS = (WindowedValue, TimestampedValue, TaggedOutput)


def rough_size(value: Any) -> int:
    """About how many bytes a value takes, without a look into its depth."""
    kind = type(value)
    if kind is str or kind is bytes:
        return len(value) + _OBJECT_BYTES
    if isinstance(value, tuple):
        return _OBJECT_BYTES + sum(map(rough_size, value))
    if isinstance(value, list | dict | set | frozenset):
        return _OBJECT_BYTES * (1 + len(value))
    return _OBJECT_BYTES


_OBJECT_BYTES = 50


class BlockLimit:
    """How many values make a block; learnt from the blocks so far.

    Attributes:
        values: the limit.
    """

    def __init__(self) -> None:
        self.values = 16

    def learn(self, block: list[Any]) -> None:
        """Takes a block into account."""
        size = max(rough_size(block[0]), rough_size(block[-1]))
        self.values = max(1, min(2 * self.values, BLOCK_SIZE, BLOCK_BYTES // size))


class Emitter:
    """The way from one operation to the next ones, for blocks and for single elements."""

    def __init__(self, consumers: list[operations.Operation], receiver: Any) -> None:
        self._receiver = receiver
        self._counter = receiver.opcounter
        takers = [getattr(consumer, "process_block", None) for consumer in consumers]
        self._takers: list[Callable[[WindowedValue, list[Any]], None]] = (
            [taker for taker in takers if taker] if all(takers) else []
        )
        self.takes_blocks = bool(self._takers)

    def block(self, template: WindowedValue, values: list[Any]) -> None:
        """Hands on values with the windowing of ``template``."""
        if not self._takers:
            receive = self._receiver.receive
            for value in values:
                receive(template.with_value(value))
            return
        # Counts as the receiver does: one element through the sampler, the rest by number.
        self._counter.update_from(template.with_value(values[0]))
        self._counter.element_counter.update(len(values) - 1)
        for take in self._takers:
            take(template, values)
        self._counter.update_collect()

    def single(self, element: WindowedValue) -> None:
        """Hands on one element."""
        self._receiver.receive(element)


class FunctionOperation(operations.DoOperation):
    """A plain function over elements; single ones take Beam's own way.

    Attributes:
        function: from an element to any number of results.
        one_to_one: from an element to its one result, where it is a ``Map``.
        window_fn: gives windows to results with a timestamp of their own.
        readers: the operations that take the results.
    """

    function: Callable[[Any], Iterable[Any] | None]
    one_to_one: Callable[[Any], Any] | None
    window_fn: WindowFn
    readers: list[operations.Operation]

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._emitter = Emitter(self.readers, self.receivers[0])
        self._kinds: dict[type, bool] = {}
        self._limit = BlockLimit()

    def process(self, o: WindowedValue) -> None:
        """Starts a block where a single element has many results."""
        if self.one_to_one is not None:
            super().process(o)
            return
        with self.scoped_process_state:
            try:
                results = self.function(o.value)
            except Exception as error:
                raise UserCodeFailed(self.name_context.step_name) from error
            if type(results) is list and len(results) < _SMALLEST_BLOCK:
                for value in results:
                    self._emit_wrapped(o, value)
            elif results is not None:
                self._emit_iterable(o, results)

    def process_block(self, template: WindowedValue, values: list[Any]) -> None:
        """Applies the function to each of the values."""
        with self.scoped_process_state:
            if self.one_to_one is None:
                self._flat_map(template, values)
            else:
                self._map(self.one_to_one, template, values)

    def _map(
        self, function: Callable[[Any], Any], template: WindowedValue, values: list[Any]
    ) -> None:
        remaining = iter(values)
        while True:
            try:
                block = list(map(function, islice(remaining, self._limit.values)))
            except Exception as error:
                raise UserCodeFailed(self.name_context.step_name) from error
            if not block:
                return
            self._emit(template, block)

    def _flat_map(self, template: WindowedValue, values: list[Any]) -> None:
        function = self.function
        block: list[Any] = []
        for value in values:
            try:
                results = function(value)
            except Exception as error:
                raise UserCodeFailed(self.name_context.step_name) from error
            if type(results) is list and len(results) <= self._limit.values:
                block += results
            elif results is not None:
                self._emit(template, block)
                block = []
                self._emit_iterable(template, results)
            if len(block) >= self._limit.values:
                self._emit(template, block)
                block = []
        self._emit(template, block)

    def _emit_iterable(self, template: WindowedValue, results: Iterable[Any]) -> None:
        try:
            iterator = iter(results)
        except TypeError as error:
            raise UserCodeFailed(self.name_context.step_name) from error
        if type(results) in _FINISHED:
            while block := list(islice(iterator, self._limit.values)):
                self._emit(template, block)
            return
        block = []
        while True:
            try:
                value = next(iterator, _END)
            except Exception as error:
                raise UserCodeFailed(self.name_context.step_name) from error
            if type(value) in IMMUTABLE:
                block.append(value)
                if len(block) < self._limit.values:
                    continue
            self._emit(template, block)
            block = []
            if value is _END:
                return
            if type(value) not in IMMUTABLE:
                self._emit(template, [value])

    def _emit(self, template: WindowedValue, block: list[Any]) -> None:
        if not block:
            return
        self._limit.learn(block)
        if any(map(self._is_wrapper, set(map(type, block)))):
            for value in block:
                self._emit_wrapped(template, value)
        else:
            self._emitter.block(template, block)

    def _is_wrapper(self, kind: type) -> bool:
        known = self._kinds.get(kind)
        if known is None:
            known = self._kinds[kind] = issubclass(kind, _WRAPPERS)
        return known

    def _emit_wrapped(self, template: WindowedValue, value: Any) -> None:
        """Emits a value that may bring its own timestamp or windows."""
        if isinstance(value, TaggedOutput):
            return  # Nobody reads the tag, or the operation would have several outputs.
        if isinstance(value, WindowedValue):
            self._emitter.single(value)
        elif isinstance(value, TimestampedValue):
            context = WindowFn.AssignContext(value.timestamp, value.value)
            windows = self.window_fn.assign(context)
            self._emitter.single(WindowedValue(value.value, value.timestamp, windows))
        else:
            self._emitter.single(template.with_value(value))


class CreateOperation(FunctionOperation):
    """The values of a Create, of which each task puts out its share.

    Attributes:
        share: which of the values; set before each bundle.
    """

    share: slice

    def process_block(self, template: WindowedValue, values: list[Any]) -> None:
        """Puts the share out, for each of the impulses in ``values``."""
        with self.scoped_process_state:
            for impulse in values:
                created = list(self.function(impulse) or ())[self.share]
                self._emit_iterable(template, created)


_END = object()


class WindowOperation(operations.DoOperation):
    """Assigns windows; once for a block where they depend on the timestamp alone.

    Attributes:
        window_fn: gives the windows.
        readers: the operations that take the results.
    """

    window_fn: WindowFn
    readers: list[operations.Operation]

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._emitter = Emitter(self.readers, self.receivers[0])
        self._by_timestamp = type(self.window_fn) in _BY_TIMESTAMP

    def process_block(self, template: WindowedValue, values: list[Any]) -> None:
        """Gives all values the windows of their common timestamp."""
        if not self._by_timestamp:
            for value in values:
                self.process(template.with_value(value))
            return
        with self.scoped_process_state:
            windows = self.window_fn.assign(WindowFn.AssignContext(template.timestamp))
            for _ in template.windows:  # In each of them, the values are elements of their own.
                self._emitter.block(WindowedValue(None, template.timestamp, windows), values)


_BY_TIMESTAMP = (GlobalWindows, FixedWindows, SlidingWindows, Sessions)


class PrecombineOperation(operations.PGBKCVOperation):
    """The map side of a combine: gathers values by key, adds them to accumulators in runs."""

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._accumulators: dict[Any, Any] = {}
        self._gathered: dict[Any, list[Any]] = {}
        self._count = 0
        self._bytes = 0

    def process_block(self, template: WindowedValue, values: list[Any]) -> None:
        """Takes in pairs of key and value."""
        if not self.is_default_windowing and (
            self.timestamp_combiner is not None or len(template.windows) != 1
        ):
            for value in values:
                self.process(template.with_value(value))
            return
        window = None if self.is_default_windowing else template.windows[0]
        gathered = self._gathered
        with self.scoped_process_state:
            for key, value in values:
                wkey = key if window is None else (window, key)
                run = gathered.get(wkey)
                if run is None:
                    gathered[wkey] = [value]
                else:
                    run.append(value)
            self._count += len(values)
            self._bytes += len(values) * rough_size(values[0])
            if self._count >= _MAX_BUFFERED or self._bytes >= _MAX_BUFFERED_BYTES:
                self._add_up()

    def _add_up(self) -> None:
        accumulators = self._accumulators
        combine_fn = self.combine_fn
        try:
            for wkey, values in self._gathered.items():
                if wkey not in accumulators:
                    accumulators[wkey] = combine_fn.create_accumulator()
                accumulators[wkey] = combine_fn.add_inputs(accumulators[wkey], values)
        except Exception as error:
            raise UserCodeFailed(self.name_context.step_name) from error
        self._gathered.clear()
        self._count = self._bytes = 0
        if len(accumulators) > _MAX_KEYS:
            self._put_out()

    def _put_out(self) -> None:
        for wkey, accumulator in self._accumulators.items():
            self.output_key(wkey, accumulator, None)
        self._accumulators = {}

    def finish(self) -> None:
        with self.scoped_finish_state:
            self._add_up()
            self._put_out()
        super().finish()


def _map_wrapper(function: Callable[[Any], Any]) -> Any:
    return core.Map(function).dofn.process


_MAP_CODE = _map_wrapper(lambda element: element).__code__


def _mapped(function: Any) -> Callable[[Any], Any] | None:
    """The function inside of what ``beam.Map`` makes of it; None for anything else."""
    if getattr(function, "__code__", None) != _MAP_CODE:
        return None
    cells = dict(zip(function.__code__.co_freevars, function.__closure__, strict=True))
    inner: Callable[[Any], Any] = cells["fn"].cell_contents
    return inner


@bundle_processor.BeamTransformFactory.register_urn(FUNCTION_URN, beam_runner_api_pb2.ParDoPayload)
def _create_function(
    factory: bundle_processor.BeamTransformFactory,
    transform_id: str,
    transform: beam_runner_api_pb2.PTransform,
    payload: beam_runner_api_pb2.ParDoPayload,
    consumers: Any,
) -> operations.DoOperation:
    return _function_operation(
        FunctionOperation, factory, transform_id, transform, payload, consumers
    )


@bundle_processor.BeamTransformFactory.register_urn(CREATE_URN, beam_runner_api_pb2.ParDoPayload)
def _create_create(
    factory: bundle_processor.BeamTransformFactory,
    transform_id: str,
    transform: beam_runner_api_pb2.PTransform,
    payload: beam_runner_api_pb2.ParDoPayload,
    consumers: Any,
) -> operations.DoOperation:
    return _function_operation(
        CreateOperation, factory, transform_id, transform, payload, consumers
    )


def _function_operation(
    kind: type[FunctionOperation],
    factory: bundle_processor.BeamTransformFactory,
    transform_id: str,
    transform: beam_runner_api_pb2.PTransform,
    payload: beam_runner_api_pb2.ParDoPayload,
    consumers: Any,
) -> operations.DoOperation:
    data = core.DoFnInfo.from_runner_api(payload.do_fn, factory.context).serialized_dofn_data()
    operation = bundle_processor._create_pardo_operation(
        factory,
        transform_id,
        transform,
        consumers,
        data,
        payload,
        operation_cls=kind,
    )
    (operation.readers,) = consumers.values()
    operation.function = pickler.loads(data)[0].process
    operation.one_to_one = _mapped(operation.function)
    operation.window_fn = factory.get_input_windowing(transform).windowfn
    return operation


@bundle_processor.BeamTransformFactory.register_urn(
    WINDOW_URN, beam_runner_api_pb2.WindowingStrategy
)
def _create_window(
    factory: bundle_processor.BeamTransformFactory,
    transform_id: str,
    transform: beam_runner_api_pb2.PTransform,
    payload: beam_runner_api_pb2.WindowingStrategy,
    consumers: Any,
) -> operations.DoOperation:
    window_fn = core.Windowing.from_runner_api(payload, factory.context).windowfn
    operation = bundle_processor._create_pardo_operation(
        factory,
        transform_id,
        transform,
        consumers,
        pickler.dumps((core.WindowInto.WindowIntoFn(core.Windowing(window_fn)), (), {}, [], None)),
        operation_cls=WindowOperation,
    )
    (operation.readers,) = consumers.values()
    operation.window_fn = window_fn
    return operation


@bundle_processor.BeamTransformFactory.register_urn(
    PRECOMBINE_URN, beam_runner_api_pb2.CombinePayload
)
def _create_precombine(
    factory: bundle_processor.BeamTransformFactory,
    transform_id: str,
    transform: beam_runner_api_pb2.PTransform,
    payload: beam_runner_api_pb2.CombinePayload,
    consumers: Any,
) -> PrecombineOperation:
    combine_fn = beam.CombineFn.from_runner_api(payload.combine_fn, factory.context)
    return factory.augment_oldstyle_op(
        PrecombineOperation(
            common.NameContext(transform.unique_name, transform_id),
            operation_specs.WorkerPartialGroupByKey(
                pickler.dumps((combine_fn, [], {})),
                None,
                [factory.get_only_output_coder(transform)],
            ),
            factory.counter_factory,
            factory.state_sampler,
            factory.get_input_windowing(transform),
        ),
        transform.unique_name,
        consumers,
    )

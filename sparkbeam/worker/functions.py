"""Operations on blocks: plain functions, and the values of a Create."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from apache_beam.internal import pickler
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.pvalue import TaggedOutput
from apache_beam.runners.worker import bundle_processor, operations
from apache_beam.transforms import core
from apache_beam.transforms.window import TimestampedValue, WindowFn
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.plan.model import CREATE_URN, FUNCTION_URN
from sparkbeam.worker.blocks import BlockLimit, Emitter
from sparkbeam.worker.failure import UserCodeFailed
from sparkbeam.worker.tables import is_immutable

_SMALLEST_BLOCK = 4
_FINISHED = frozenset([list, tuple, range, set, frozenset, str, bytes])
_WRAPPERS = (WindowedValue, TimestampedValue, TaggedOutput)
_END = object()


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
            self._flat_map(o, [o.value])

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
                iterator = iter(()) if results is None else iter(results)
            except Exception as error:
                raise UserCodeFailed(self.name_context.step_name) from error
            if type(results) is list and len(results) <= self._limit.values:
                block += results
                block = self._emit_full(template, block)
            elif type(results) in _FINISHED:
                while part := list(islice(iterator, self._limit.values)):
                    block += part
                    block = self._emit_full(template, block)
            else:
                block = self._emit_as_it_comes(template, block, iterator)
        self._emit(template, block)

    def _emit_as_it_comes(
        self, template: WindowedValue, block: list[Any], results: Iterator[Any]
    ) -> list[Any]:
        """Emits what is not finished when it is yielded; gives the block that is open then."""
        while True:
            try:
                value = next(results, _END)
            except Exception as error:
                raise UserCodeFailed(self.name_context.step_name) from error
            if value is _END:
                return block
            block.append(value)
            if len(block) >= self._limit.values or not is_immutable(value):
                self._emit(template, block)
                block = []

    def _emit_full(self, template: WindowedValue, block: list[Any]) -> list[Any]:
        if len(block) < self._limit.values:
            return block
        self._emit(template, block)
        return []

    def _emit(self, template: WindowedValue, block: list[Any]) -> None:
        if len(block) < _SMALLEST_BLOCK:
            for value in block:
                self._emit_wrapped(template, value)
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

    share: slice = slice(None)

    def process(self, o: WindowedValue) -> None:
        """Puts the share out."""
        self.process_block(o, [o.value])

    def process_block(self, template: WindowedValue, values: list[Any]) -> None:
        """Puts the share out, for each of the impulses in ``values``."""
        with self.scoped_process_state:
            for impulse in values:
                created = list(self.function(impulse) or ())[self.share]
                remaining = iter(created)
                while block := list(islice(remaining, self._limit.values)):
                    self._emit(template, block)


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


def _with_none(element: Any) -> tuple[None, Any]:
    """The one result of Beam's ``_KeyWithNone``."""
    return None, element


def _operation(
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
    fn = pickler.loads(data)[0]
    operation.function = fn.process
    operation.one_to_one = _with_none if isinstance(fn, core._KeyWithNone) else _mapped(fn.process)
    operation.window_fn = factory.get_input_windowing(transform).windowfn
    return operation


for _urn, _kind in ((FUNCTION_URN, FunctionOperation), (CREATE_URN, CreateOperation)):
    bundle_processor.BeamTransformFactory.register_urn(_urn, beam_runner_api_pb2.ParDoPayload)(
        partial(_operation, _kind)
    )

"""Operations on blocks: stateful DoFns.

Beam's own operation asks for each state and timer again with each element. Here that is done
once for the elements of a key that follow each other, and what is left is a call of the
user's ``process``.
"""

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.internal import pickler
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.worker import bundle_processor, operations
from apache_beam.transforms import core
from apache_beam.transforms.userstate import UserStateContext
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.worker.functions import FunctionOperation
from sparkbeam.worker.state import StageState

_NOTHING = object()

Argument = Callable[["StatefulOperation"], Any]
"""Gives the argument for a parameter of ``process`` for the key and element at hand."""


class StatefulOperation(FunctionOperation):
    """A stateful DoFn that asks for nothing but its element, key, time, states and timers.

    Attributes:
        arguments: those of ``process`` after the element.
        timed: some of them depend on more than key and window.
        context: gives states and timers.
        key: of the element at hand.
        element: one that has the windowing of the element at hand, in a single window.
    """

    arguments: list[Argument]
    timed: bool
    element: WindowedValue
    one_to_one = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.context: UserStateContext = args[-1]
        self.key: Any = _NOTHING
        self._windows: Any = None
        self._bound: list[Any] = []

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        del _SHARED[self._shared]

    def start(self) -> None:
        self.key = _NOTHING
        super().start()

    def prepare(self, fn: beam.DoFn, shared: int, arguments: list[Argument], timed: bool) -> None:
        """Tells what to run.

        Args:
            fn: the instance that the bundles set up and start.
            shared: its number until then.
            arguments: see the attributes.
            timed: see the attributes.
        """
        self._shared = shared
        self._process = fn.process
        self.function = self._call
        self.arguments = arguments
        self.timed = timed

    def process(self, o: WindowedValue) -> None:
        """Processes an element in each of its windows."""
        self.process_block(o, [o.value])

    def process_block(self, template: WindowedValue, values: list[Any]) -> None:
        """Processes elements with the same windowing, in each of their windows."""
        with self.scoped_process_state:
            for single in _by_window(template):
                if self.timed or self._windows != single.windows:
                    self.key = _NOTHING
                self.element, self._windows = single, single.windows
                self._flat_map(single, values)

    def _call(self, value: Any) -> Any:
        key = value[0]
        if key is not self.key:
            self.key = key
            self._bound = [argument(self) for argument in self.arguments]
        return self._process(value, *self._bound)


def _by_window(element: WindowedValue) -> Iterator[WindowedValue]:
    if len(element.windows) == 1:
        return iter((element,))
    return (
        WindowedValue(element.value, element.timestamp, (window,), element.pane_info)
        for window in element.windows
    )


def _arguments(fn: beam.DoFn) -> tuple[list[Argument], bool] | None:
    """The arguments of ``process`` after the element, and whether they depend on time.

    None for a DoFn that asks for more, or in a way of its own.
    """
    if hasattr(fn, "_inspect_process") or fn._process_batch_defined or fn._process_yields_batches:
        return None
    element, *parameters = inspect.signature(fn.process).parameters.values()
    if element.kind is not element.POSITIONAL_OR_KEYWORD:
        return None
    found: list[Argument] = []
    timed = False
    for parameter in parameters:
        argument = _argument(parameter.default)
        if argument is None or parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            return None
        found.append(argument)
        timed |= argument not in (_key, _window) and not isinstance(
            parameter.default, core.DoFn.StateParam
        )
    return found, timed


def _argument(default: Any) -> Argument | None:
    if isinstance(default, core.DoFn.StateParam):
        state = default.state_spec
        return lambda at: at.context.get_state(state, at.key, at.element.windows[0])
    if isinstance(default, core.DoFn.TimerParam):
        return _timer(default.timer_spec)
    return next((argument for kind, argument in _PLAIN if kind == default), None)


def _timer(spec: Any) -> Argument:
    def timer(at: StatefulOperation) -> Any:
        windows, time, pane = at.element.windows, at.element.timestamp, at.element.pane_info
        return at.context.get_timer(spec, at.key, windows[0], time, pane)

    return timer


def _key(at: StatefulOperation) -> Any:
    return at.key


def _window(at: StatefulOperation) -> Any:
    return at.element.windows[0]


_PLAIN: tuple[tuple[Any, Argument], ...] = (
    (core.DoFn.KeyParam, _key),
    (core.DoFn.WindowParam, _window),
    (core.DoFn.TimestampParam, lambda at: at.element.timestamp),
    (core.DoFn.PaneInfoParam, lambda at: at.element.pane_info),
)


def _loaded(number: int) -> Any:
    return _SHARED[number]


class _Shared:
    """Stands for an object in a pickle, each load of which gives that very object."""

    def __init__(self, shared: Any) -> None:
        self.number = next(_NUMBERS)
        _SHARED[self.number] = shared

    def __reduce__(self) -> tuple[Callable[[int], Any], tuple[int]]:
        return _loaded, (self.number,)


_SHARED: dict[int, Any] = {}
_NUMBERS = itertools.count()


def _windowing(
    factory: bundle_processor.BeamTransformFactory,
    transform: beam_runner_api_pb2.PTransform,
    payload: beam_runner_api_pb2.ParDoPayload,
) -> core.Windowing:
    (main,) = [p for tag, p in transform.inputs.items() if tag not in payload.timer_family_specs]
    strategy = factory.descriptor.pcollections[main].windowing_strategy_id
    return factory.context.windowing_strategies.get_by_id(strategy)


@bundle_processor.BeamTransformFactory.register_urn(
    common_urns.primitives.PAR_DO.urn, beam_runner_api_pb2.ParDoPayload
)
def _par_do(
    factory: bundle_processor.BeamTransformFactory,
    transform_id: str,
    transform: beam_runner_api_pb2.PTransform,
    payload: beam_runner_api_pb2.ParDoPayload,
    consumers: Any,
) -> operations.DoOperation:
    """Makes the operation of a ParDo; those of other runners in this process are Beam's own."""
    state = factory.state_handler
    stateful = payload.state_specs or payload.timer_family_specs
    if not isinstance(state, StageState) or not stateful:
        return bundle_processor.create_par_do(factory, transform_id, transform, payload, consumers)
    data = core.DoFnInfo.from_runner_api(payload.do_fn, factory.context).serialized_dofn_data()
    fn, args, kwargs, *rest = pickler.loads(data)
    arguments = None
    if len(consumers) == 1 and not (payload.side_inputs or args or kwargs):
        arguments = _arguments(fn)
    kind = operations.DoOperation if arguments is None else StatefulOperation

    def operation(*parts: Any) -> operations.DoOperation:
        *others, context = parts
        return kind(*others, state.user_state(context))

    if arguments is None:
        return bundle_processor._create_pardo_operation(
            factory, transform_id, transform, consumers, data, payload, operation_cls=operation
        )
    # The operation loads the DoFn itself, and has to set up the instance that runs here.
    shared = _Shared(fn)
    windowing = rest[-1] or _windowing(factory, transform, payload)
    made = bundle_processor._create_pardo_operation(
        factory,
        transform_id,
        transform,
        consumers,
        pickler.dumps((shared, args, kwargs, *rest[:-1], windowing)),
        payload,
        operation_cls=operation,
    )
    (made.readers,) = consumers.values()
    made.window_fn = windowing.windowfn
    made.prepare(fn, shared.number, *arguments)
    return made

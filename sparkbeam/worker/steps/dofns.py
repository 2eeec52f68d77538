"""Operations on blocks: DoFns.

Beam's own operation looks up the arguments of ``process`` for each element: time and window, states
and timers. Here that is done once for the elements that share them. A call of the user's
``process`` is all that remains for each element.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import apache_beam as beam
from apache_beam.runners.worker import operations
from apache_beam.transforms import core
from apache_beam.transforms.userstate import UserStateContext
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.worker.blocks import Block
from sparkbeam.worker.refusals import count_refused
from sparkbeam.worker.steps.functions import FunctionOperation, output_of
from sparkbeam.worker.steps.step import Step

_NOTHING = object()

Argument = Callable[[Any], Any]
"""Provider of the argument for a parameter of ``process``, given the operation's state."""


class Parameter(NamedTuple):
    """A parameter of ``process``.

    Attributes:
        argument: gives the argument.
        timed: that depends on the timestamp or the pane.
        windowed: that depends on the window.
    """

    argument: Argument
    timed: bool = False
    windowed: bool = False


class Signature(NamedTuple):
    """Parameters of ``process`` after the element.

    Attributes:
        arguments: one per parameter.
        timed: True if some of them depend on the timestamp or the pane.
        windowed: True if some of them depend on the window.
    """

    arguments: list[Argument]
    timed: bool
    windowed: bool


class ElementOperation(FunctionOperation):
    """A DoFn that needs only its element."""

    one_to_one = None

    def prepare(self, fn: beam.DoFn) -> None:
        """Set the DoFn to run.

        Args:
            fn: the instance that the bundles set up and start.
        """
        self.function = fn.process if inspect.isgeneratorfunction(fn.process) else _checked(fn)


class DoFnOperation(ElementOperation):
    """A DoFn that needs its element, time, window and pane.

    Attributes:
        signature: the parameters.
        element: an element with the windowing of the current one.
    """

    takes_assigned = False

    signature: Signature
    element: WindowedValue
    _process: Callable[..., Any]

    def ask(self, signature: Signature) -> None:
        """Set the arguments of the calls."""
        self._process = self.function
        self.function = self._call
        self.signature = signature
        self._bound: list[Any] = []

    def process(self, o: WindowedValue) -> None:
        """Process an element."""
        self.process_block(Block(o, [o.value]))

    def process_block(self, block: Block) -> None:
        """Process elements; those with own timestamps together if the DoFn needs none."""
        with self.scoped_process_state:
            if block.column is not None:
                count_refused(self.why())
            for part in block.unstamped() if self.signature.timed else (block,):
                for single in self._apart(part.windowing):
                    self._bind(single)
                    self._flat_map(part.values, output_of(self, single, part.stamps))

    def _apart(self, template: WindowedValue) -> Iterator[WindowedValue]:
        """Yield a template for each window, if the DoFn is to see windows one by one."""
        return window_by_window(template) if self.signature.windowed else iter((template,))

    def _bind(self, element: WindowedValue) -> None:
        """Bind the arguments to another windowing."""
        self.element = element
        self._look_up()

    def _look_up(self) -> None:
        self._bound = [argument(self) for argument in self.signature.arguments]

    def _call(self, value: Any) -> Any:
        return self._process(value, *self._bound)


class StatefulOperation(DoFnOperation):
    """A DoFn with key, states and timers.

    Attributes:
        context: gives states and timers.
        key: the key of the current element.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.context: UserStateContext = args[-1]
        self.key: Any = _NOTHING
        self._windows: Any = None

    def start(self) -> None:
        self.key = _NOTHING
        super().start()

    def _bind(self, element: WindowedValue) -> None:
        if self.signature.timed or self._windows != element.windows:
            self.key = _NOTHING
        self.element, self._windows = element, element.windows

    def _call(self, value: Any) -> Any:
        key = value[0]
        if key is not self.key:
            self.key = key
            self._look_up()
        return self._process(value, *self._bound)


def window_by_window(template: WindowedValue) -> Iterator[WindowedValue]:
    """Yield a template for each window."""
    windows = template.windows
    if len(windows) == 1 and isinstance(windows, tuple | list):
        return iter((template,))
    time, pane = template.timestamp, template.pane_info
    return (WindowedValue(None, time, (window,), pane) for window in windows)


def _checked(fn: beam.DoFn) -> Callable[..., Any]:
    """Return ``process`` with Beam's check that its result is meant to be iterated."""
    process = fn.process

    def checked(*args: Any) -> Any:
        results = process(*args)
        if isinstance(results, str | bytes | dict):
            raise TypeError(
                f"Returning a {type(results).__name__} from a ParDo or FlatMap is not allowed. "
                "Please use list instead."
            )
        return results

    return checked


def signature_of(fn: beam.DoFn) -> Signature:
    """Return the parameters of a DoFn; the plan has checked that they can be resolved."""
    _, *parameters = inspect.signature(fn.process).parameters.values()
    found = [_asked(parameter.default) for parameter in parameters]
    return Signature(
        [one.argument for one in found],
        any(one.timed for one in found),
        any(one.windowed for one in found),
    )


def _asked(default: Any) -> Parameter:
    """Return the parameter that a default value stands for."""
    if isinstance(default, core.DoFn.StateParam):
        return Parameter(_state(default.state_spec), windowed=True)
    if isinstance(default, core.DoFn.TimerParam):
        return Parameter(_timer(default.timer_spec), timed=True, windowed=True)
    return next(asked for kind, asked in _PLAIN if kind == default)


def _state(spec: Any) -> Argument:
    def state(at: StatefulOperation) -> Any:
        return at.context.get_state(spec, at.key, at.element.windows[0])

    return state


def _timer(spec: Any) -> Argument:
    def timer(at: StatefulOperation) -> Any:
        windows, time, pane = at.element.windows, at.element.timestamp, at.element.pane_info
        return at.context.get_timer(spec, at.key, windows[0], time, pane)

    return timer


_PLAIN: tuple[tuple[Any, Parameter], ...] = (
    (core.DoFn.KeyParam, Parameter(lambda at: at.key)),
    (core.DoFn.WindowParam, Parameter(lambda at: at.element.windows[0], windowed=True)),
    (core.DoFn.TimestampParam, Parameter(lambda at: at.element.timestamp, timed=True)),
    (core.DoFn.PaneInfoParam, Parameter(lambda at: at.element.pane_info, timed=True)),
)


_Made = TypeVar("_Made", bound=operations.DoOperation)
_Prepared = TypeVar("_Prepared", bound=ElementOperation)


def prepared(step: Step, kind: Callable[..., _Prepared]) -> _Prepared:
    """Make an operation that runs the DoFn of a step itself, and knows it.

    Args:
        step: the step to run.
        kind: makes the :class:`ElementOperation` itself.
    """
    windowing = step.dofn.windowing or step.windowing(step.input)
    data = step.dofn._replace(windowing=windowing)
    made = step.block_operation(kind, data, windowing.windowfn)
    made.prepare(step.dofn.fn)
    return made


def with_states(step: Step, kind: Callable[..., _Made]) -> Callable[..., _Made]:
    """Create an operation whose DoFn gets its states and timers from the stage's state.

    Args:
        step: the step of the DoFn.
        kind: makes the operation itself.
    """

    def operation(*parts: Any) -> _Made:
        *others, _ = parts
        coder = step.factory.get_windowed_coder(step.input)
        state: Any = step.factory.state_handler
        states = state.user_state(step.id, coder.key_coder(), coder.window_coder, step.label)
        return kind(*others, states)

    return operation

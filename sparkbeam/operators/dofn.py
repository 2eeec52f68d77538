"""DoFns that ask for more than the element, or have further methods.

Beam's own operation looks up the arguments of ``process`` for each element: time and window, states
and timers. Here that is done once for the elements that share them. A call of the user's
``process`` is all that remains for each element.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

import apache_beam as beam
from apache_beam.runners.worker import operations
from apache_beam.transforms import core
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.operators.beam import why_called
from sparkbeam.operators.function import output_of
from sparkbeam.operators.process import ElementOperation, prepared
from sparkbeam.plan.operator import Operator
from sparkbeam.plan.pardo_functions import asks_plainly
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.refusals import count_refused
from sparkbeam.worker.steps.step import Step

Argument = Callable[[Any], Any]
"""Provider of the argument for a parameter of ``process``, given the operation's state."""


class DoFn(Operator):
    """A DoFn whose parameters are looked up once for many elements."""

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        fn = None if step.is_stateful else step.dofn
        asks = fn is not None and asks_for_known_parameters(fn, stateful=False)
        return cls(step.label, why_called(step)) if asks else None

    def run(self, step: Step) -> operations.Operation:
        asks = bool(parameters_of(step.dofn.fn))
        return prepared(step, DoFnOperation if asks else ElementOperation)


def asks_for_known_parameters(fn: beam.DoFn, *, stateful: bool) -> bool:
    """Return whether all that ``process`` takes is equal for elements that share their windowing.

    Args:
        stateful: it has state or timers, and is called key by key.
    """
    if not asks_plainly(fn):
        return False
    _, *parameters = inspect.signature(fn.process).parameters.values()
    return all(_is_known(parameter.default, stateful=stateful) for parameter in parameters)


def _is_known(default: Any, *, stateful: bool) -> bool:
    if isinstance(default, core.DoFn.StateParam | core.DoFn.TimerParam):
        return True
    if core.DoFn.KeyParam == default:
        return stateful
    return any(kind == default for kind, _ in _PLAIN)


class Parameter(NamedTuple):
    """A parameter of ``process``.

    Attributes:
        timed: that depends on the timestamp or the pane.
        windowed: that depends on the window.
    """

    argument: Argument
    timed: bool = False
    windowed: bool = False


class DoFnOperation(ElementOperation):
    """A DoFn that needs its element, time, window and pane.

    Attributes:
        element: an element with the windowing of the current one.
        timed: True if an argument depends on the timestamp or the pane.
    """

    takes_assigned = False

    timed: bool
    element: WindowedValue
    _process: Callable[..., Any]

    def prepare(self, fn: beam.DoFn) -> None:
        super().prepare(fn)
        self._process = self.function
        self._parameters = parameters_of(fn)
        self._is_windowed = any(one.windowed for one in self._parameters)
        self.timed = any(one.timed for one in self._parameters)
        self.function = self._call_in_time if self.timed else self._call
        self._bound: list[Any] = []

    def process(self, o: WindowedValue) -> None:
        """Process an element."""
        self.process_block(Block(o, [o.value]))

    def process_block(self, block: Block) -> None:
        """Process elements; of those with own timestamps, each is bound before its call."""
        with self.scoped_process_state:
            if block.column is not None:
                count_refused(self.why())
            whole = block.windowing
            for single in window_by_window(whole) if self._is_windowed else (whole,):
                if self.timed:
                    self._elements = block.with_windowing(single).elements()
                else:
                    self._bind(single)
                self._flat_map(block.values, output_of(self, single, block.stamps))

    def _bind(self, element: WindowedValue) -> None:
        """Bind the arguments to another windowing."""
        self.element = element
        self._bind_arguments()

    def _bind_arguments(self) -> None:
        self._bound = [one.argument(self) for one in self._parameters]

    def _call(self, value: Any) -> Any:
        return self._process(value, *self._bound)

    def _call_in_time(self, value: Any) -> Any:
        self._bind(next(self._elements))
        return self._call(value)


def window_by_window(template: WindowedValue) -> Iterator[WindowedValue]:
    """Yield a template for each window."""
    windows = template.windows
    if len(windows) == 1 and isinstance(windows, tuple | list):
        return iter((template,))
    time, pane = template.timestamp, template.pane_info
    return (WindowedValue(None, time, (window,), pane) for window in windows)


def parameters_of(fn: beam.DoFn) -> list[Parameter]:
    """Return the parameters of ``process`` after the element, which the plan has checked."""
    _, *parameters = inspect.signature(fn.process).parameters.values()
    return [_parameter_of(parameter.default) for parameter in parameters]


def _parameter_of(default: Any) -> Parameter:
    """Return the parameter that a default value stands for."""
    if isinstance(default, core.DoFn.StateParam):
        return Parameter(_state(default.state_spec), windowed=True)
    if isinstance(default, core.DoFn.TimerParam):
        return Parameter(_timer(default.timer_spec), timed=True, windowed=True)
    return next(asked for kind, asked in _PLAIN if kind == default)


def _state(spec: Any) -> Argument:
    def state(at: Any) -> Any:
        return at.context.get_state(spec, at.key, at.element.windows[0])

    return state


def _timer(spec: Any) -> Argument:
    def timer(at: Any) -> Any:
        windows, time, pane = at.element.windows, at.element.timestamp, at.element.pane_info
        return at.context.get_timer(spec, at.key, windows[0], time, pane)

    return timer


_PLAIN: tuple[tuple[Any, Parameter], ...] = (
    (core.DoFn.KeyParam, Parameter(lambda at: at.key)),
    (core.DoFn.WindowParam, Parameter(lambda at: at.element.windows[0], windowed=True)),
    (core.DoFn.TimestampParam, Parameter(lambda at: at.element.timestamp, timed=True)),
    (core.DoFn.PaneInfoParam, Parameter(lambda at: at.element.pane_info, timed=True)),
)

"""DoFns with state or timers, over the state of the stage.

Over blocks, these are looked up once for the elements of a key in a row.
"""

from collections.abc import Callable
from typing import Any, Self, TypeVar

from apache_beam.runners.worker import operations
from apache_beam.transforms.userstate import UserStateContext
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.operators.beam import why_called
from sparkbeam.operators.dofn import DoFnOperation, asks_for_known_parameters
from sparkbeam.operators.process import prepared
from sparkbeam.plan.operator import Operator
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.worker.steps.step import Step

_Made = TypeVar("_Made", bound=operations.DoOperation)
_NOTHING = object()


class StatefulDoFn(Operator):
    """A stateful DoFn over blocks."""

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        fn = step.dofn if step.is_stateful else None
        asks = fn is not None and asks_for_known_parameters(fn, stateful=True)
        return cls(step.label, why_called(step)) if asks else None

    def run(self, step: Step) -> operations.Operation:
        return prepared(step, _with_states(step, StatefulOperation))


class Stateful(Operator):
    """Beam's operation with the state of the stage."""

    over_blocks = False

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        return cls(step.label, why_called(step)) if step.is_stateful else None

    def run(self, step: Step) -> operations.Operation:
        return step.do_operation(_with_states(step, operations.DoOperation), step.dofn)


def _with_states(step: Step, kind: Callable[..., _Made]) -> Callable[..., _Made]:
    """Create an operation whose DoFn gets its states and timers from the stage's state."""

    def operation(*parts: Any) -> _Made:
        *others, _ = parts
        coder = step.factory.get_windowed_coder(step.input)
        state: Any = step.factory.state_handler
        states = state.user_state(step.id, coder.key_coder(), coder.window_coder, step.label)
        return kind(*others, states)

    return operation


class StatefulOperation(DoFnOperation):
    """A DoFn with key, states and timers."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.context: UserStateContext = args[-1]
        self.key: Any = _NOTHING
        self._windows: Any = None

    def start(self) -> None:
        self.key = _NOTHING
        super().start()

    def _bind(self, element: WindowedValue) -> None:
        if self.timed or self._windows != element.windows:
            self.key = _NOTHING
        self.element, self._windows = element, element.windows

    def _call(self, value: Any) -> Any:
        key = value[0]
        if key is not self.key:
            self.key = key
            self._bind_arguments()
        return self._process(value, *self._bound)

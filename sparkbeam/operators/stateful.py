"""Beam's own operation of a DoFn with state or timers, over the state of the stage."""

from collections.abc import Callable
from typing import Any, Self, TypeVar

from apache_beam.runners.worker import operations

from sparkbeam.operators.beam import why_called
from sparkbeam.plan.operator import Operator
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.worker.steps.step import Step

_Made = TypeVar("_Made", bound=operations.DoOperation)


class Stateful(Operator):
    """Beam's operation with the state of the stage."""

    over_blocks = False

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        return cls(step.label, why_called(step)) if step.is_stateful else None

    def run(self, step: Step) -> operations.Operation:
        return step.do_operation(with_states(step, operations.DoOperation), step.dofn)


def with_states(step: Step, kind: Callable[..., _Made]) -> Callable[..., _Made]:
    """Create an operation whose DoFn gets its states and timers from the stage's state."""

    def operation(*parts: Any) -> _Made:
        *others, _ = parts
        coder = step.factory.get_windowed_coder(step.input)
        state: Any = step.factory.state_handler
        states = state.user_state(step.id, coder.key_coder(), coder.window_coder, step.label)
        return kind(*others, states)

    return operation

"""DoFns with a ``process`` that takes the element alone, and no other method."""

import inspect
from collections.abc import Callable
from typing import Any, Self, TypeVar

import apache_beam as beam
from apache_beam.runners.worker import operations
from apache_beam.transforms import core

from sparkbeam.operators.function import Function, FunctionOperation
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.worker.steps.step import Step


class Process(Function):
    """A DoFn of the element alone."""

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        return None if step.function is None else cls(step.label)

    def run(self, step: Step) -> operations.Operation:
        made = prepared(step, ElementOperation)
        made.over_columns = step.dofn.fn.process
        return made


class ElementOperation(FunctionOperation):
    """A DoFn that needs only its element."""

    one_to_one = None

    def prepare(self, fn: beam.DoFn) -> None:
        """Set the DoFn to run.

        Args:
            fn: the instance that the bundles set up and start.
        """
        self.function = process_of(fn)


def process_of(fn: beam.DoFn) -> Callable[..., Any]:
    """Return ``process``, of a user's class with Beam's check that its result can be iterated."""
    process: Callable[..., Any] = fn.process
    if isinstance(fn, core.CallableWrapperDoFn) or inspect.isgeneratorfunction(process):
        return process

    def checked(*args: Any, **kwargs: Any) -> Any:
        results = process(*args, **kwargs)
        if isinstance(results, str | bytes | dict):
            raise TypeError(
                f"Returning a {type(results).__name__} from a ParDo or FlatMap is not allowed. "
                "Please use list instead."
            )
        return results

    return checked


_Prepared = TypeVar("_Prepared", bound=ElementOperation)


def prepared(step: Step, kind: Callable[..., _Prepared]) -> _Prepared:
    """Make an operation that runs the DoFn of a step itself, and knows it.

    Args:
        kind: makes the :class:`ElementOperation` itself.
    """
    windowing = step.dofn.windowing or step.windowing(step.input)
    data = step.dofn._replace(windowing=windowing)
    made = step.block_operation(kind, data, windowing.windowfn)
    made.prepare(step.dofn.fn)
    return made

"""DoFns that ask for more than the element, or have further methods."""

import inspect
from typing import Any, Self

import apache_beam as beam
from apache_beam.runners.worker import operations
from apache_beam.transforms import core

from sparkbeam.operators.beam import why_called
from sparkbeam.plan.operator import Operator
from sparkbeam.plan.pardo_functions import asks_plainly
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.worker.steps.dofns import DoFnOperation, ElementOperation, prepared, signature_of
from sparkbeam.worker.steps.step import Step


class DoFn(Operator):
    """A DoFn whose parameters are looked up once for many elements."""

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        fn = None if step.is_stateful else step.dofn
        asks = fn is not None and asks_for_known_parameters(fn, stateful=False)
        return cls(step.label, why_called(step)) if asks else None

    def run(self, step: Step) -> operations.Operation:
        signature = signature_of(step.dofn.fn)
        if not signature.arguments:
            return prepared(step, ElementOperation)
        made = prepared(step, DoFnOperation)
        made.ask(signature)
        return made


def asks_for_known_parameters(fn: beam.DoFn, *, stateful: bool) -> bool:
    """Return whether all that ``process`` takes is equal for elements that share their windowing.

    Args:
        fn: the DoFn.
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
    known = (core.DoFn.WindowParam, core.DoFn.TimestampParam, core.DoFn.PaneInfoParam)
    return any(kind == default for kind in known)

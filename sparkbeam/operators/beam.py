"""Beam's own operation, which runs any step, element by element."""

import inspect
from contextlib import suppress
from typing import Any, Self

import apache_beam as beam
from apache_beam.portability import python_urns
from apache_beam.runners.worker import operations
from apache_beam.transforms import core

from sparkbeam.plan.operator import BEAMS_OWN, Operator
from sparkbeam.plan.pardo_functions import LIFE, is_overridden, loaded
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.plan.urns import PAR_DO
from sparkbeam.upstream.beam import handles_batches
from sparkbeam.worker.steps.step import Step

_ASKED = (
    (core.DoFn.TimestampParam, "the timestamp"),
    (core.DoFn.WindowParam, "the window"),
    (core.DoFn.PaneInfoParam, "the pane"),
    (core.DoFn.KeyParam, "the key"),
    (core.DoFn.WindowedValueParam, "the windowed value"),
)


class Beam(Operator):
    """Beam's own operation."""

    over_blocks = False

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        return cls(step.label, why_called(step))

    def run(self, step: Step) -> operations.Operation:
        return step.beams_own()


def why_called(step: PlannedStep) -> str:
    """Return why a step that is no function of the element alone is called for each element."""
    if step.urn != PAR_DO:
        return BEAMS_OWN
    if step.par_do.restriction_coder_id:
        return "it is a splittable DoFn"
    if step.is_stateful:
        return "it has state or timers"
    if step.par_do.requests_finalization:
        return "it uses a bundle finalizer"
    if len(step.transform.outputs) > 1:
        return "it has several outputs"
    if step.par_do.do_fn.urn != python_urns.PICKLED_DOFN_INFO:
        return BEAMS_OWN
    fn, args, kwargs = loaded(step.par_do.do_fn.payload)[:3]
    if kwargs:
        return "it gets keyword arguments"
    if args and not isinstance(fn, core.CallableWrapperDoFn):
        return "it is a DoFn with additional arguments"
    return _why_of(fn)


def _why_of(fn: beam.DoFn) -> str:
    """Return why a DoFn is called for each element, by its methods and parameters."""
    if handles_batches(fn):
        return "it handles batches"
    own = [name for name in LIFE if is_overridden(fn, name)]
    if own and not isinstance(fn, core.CallableWrapperDoFn):
        return f"it has a {own[0]}"
    asked: list[Any] = []
    if isinstance(fn, core.CallableWrapperDoFn):
        asked = core.get_function_arguments(fn, "process")[1]
    else:
        with suppress(ValueError):
            asked = [each.default for each in inspect.signature(fn.process).parameters.values()]
    words = [words for kind, words in _ASKED if any(kind == one for one in asked)]
    return f"it uses {words[0]}" if words else "it depends on more than the element"

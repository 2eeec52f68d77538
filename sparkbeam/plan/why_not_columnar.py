"""Why a step is called for each element: it is more than a function that may be compiled."""

import inspect

import apache_beam as beam
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms import core

from sparkbeam.plan.pardo_functions import LIFE, is_overridden, loaded, par_do_payload
from sparkbeam.upstream.beam import handles_batches

_ASKED = (
    (core.DoFn.TimestampParam, "the timestamp"),
    (core.DoFn.WindowParam, "the window"),
    (core.DoFn.PaneInfoParam, "the pane"),
    (core.DoFn.KeyParam, "the key"),
    (core.DoFn.WindowedValueParam, "the windowed value"),
)


def why_called(transform: beam_runner_api_pb2.PTransform) -> str:
    """Why a step that is no function of the element alone takes elements, in words."""
    if transform.spec.urn != common_urns.primitives.PAR_DO.urn:
        return "it runs as Beam's own operation"
    payload = par_do_payload(transform.spec.payload)
    if payload.restriction_coder_id:
        return "it is a splittable DoFn"
    if payload.state_specs or payload.timer_family_specs:
        return "it has state or timers"
    if payload.requests_finalization:
        return "it asks for a bundle finalizer"
    if len(transform.outputs) > 1:
        return "it has several outputs"
    if payload.do_fn.urn != python_urns.PICKLED_DOFN_INFO:
        return "it runs as Beam's own operation"
    fn, args, kwargs = loaded(payload.do_fn.payload)[:3]
    if kwargs:
        return "it gets arguments by name"
    if args and not isinstance(fn, core.CallableWrapperDoFn):
        return "it is a DoFn with further arguments"
    return _why_of(fn)


def _why_of(fn: beam.DoFn) -> str:
    """Why a DoFn is called, by what it has and asks for."""
    if handles_batches(fn):
        return "it handles batches"
    own = [name for name in LIFE if is_overridden(fn, name)]
    if own and not isinstance(fn, core.CallableWrapperDoFn):
        return f"it has a {own[0]}"
    if isinstance(fn, core.CallableWrapperDoFn):
        asked = core.get_function_arguments(fn, "process")[1]
    else:
        try:
            asked = [each.default for each in inspect.signature(fn.process).parameters.values()]
        except ValueError:
            asked = []
    words = [words for kind, words in _ASKED if any(kind == one for one in asked)]
    return f"it asks for {words[0]}" if words else "it is more than a function of the element"

"""Finds the transforms that sparkbeam runs itself, without Beam's per-element machinery."""

from typing import Any

import apache_beam as beam
from apache_beam.internal import pickler
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners import common
from apache_beam.transforms import core
from apache_beam.utils import proto_utils

from sparkbeam.plan.model import FUNCTION_URN, PRECOMBINE_URN, WINDOW_URN

_TAKE_BLOCKS = {
    common_urns.combine_components.COMBINE_PER_KEY_PRECOMBINE.urn: PRECOMBINE_URN,
    common_urns.primitives.ASSIGN_WINDOWS.urn: WINDOW_URN,
}


def mark_blocks(transforms: dict[str, beam_runner_api_pb2.PTransform]) -> None:
    """Gives transforms that can take blocks of elements sparkbeam's own URNs, in place."""
    for transform in transforms.values():
        if transform.spec.urn == common_urns.primitives.PAR_DO.urn:
            if _is_plain_function(transform):
                transform.spec.urn = FUNCTION_URN
        elif transform.spec.urn in _TAKE_BLOCKS:
            transform.spec.urn = _TAKE_BLOCKS[transform.spec.urn]


def _is_plain_function(transform: beam_runner_api_pb2.PTransform) -> bool:
    """Whether a ParDo is a function of the element alone, with one output.

    Such is also the DoFn with which each global combine begins.
    """
    payload = proto_utils.parse_Bytes(transform.spec.payload, beam_runner_api_pb2.ParDoPayload)
    return len(transform.outputs) == 1 and (
        payload.do_fn.urn == python_urns.KEY_WITH_NONE_DOFN or plain_function(payload) is not None
    )


def plain_function(payload: beam_runner_api_pb2.ParDoPayload) -> core.CallableWrapperDoFn | None:
    """The function that a ParDo consists of, if it asks for nothing but the element."""
    if (
        payload.side_inputs
        or payload.state_specs
        or payload.timer_family_specs
        or payload.restriction_coder_id
        or payload.requests_finalization
        or payload.do_fn.urn != python_urns.PICKLED_DOFN_INFO
    ):
        return None
    fn: beam.DoFn
    fn, args, kwargs, *_ = pickler.loads(payload.do_fn.payload)
    if not isinstance(fn, core.CallableWrapperDoFn) or args or kwargs:
        return None
    return None if common.DoFnSignature(fn).process_method.defaults else fn


def is_create(transform: beam_runner_api_pb2.PTransform) -> bool:
    """Whether a transform is the step of ``beam.Create`` that holds the values."""
    if transform.spec.urn != common_urns.primitives.PAR_DO.urn:
        return False
    payload = proto_utils.parse_Bytes(transform.spec.payload, beam_runner_api_pb2.ParDoPayload)
    return _home(getattr(plain_function(payload), "_fn", None)) == _HOME_OF_CREATE


def _home(function: Any) -> tuple[str | None, str | None]:
    return getattr(function, "__module__", None), getattr(function, "__qualname__", None)


_HOME_OF_CREATE = (core.Create.__module__, f"{core.Create.expand.__qualname__}.<locals>.<lambda>")

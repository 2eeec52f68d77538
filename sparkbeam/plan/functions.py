"""Finds the transforms that need nothing of Beam's per-element machinery."""

import apache_beam as beam
from apache_beam.internal import pickler
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners import common
from apache_beam.transforms import core
from apache_beam.utils import proto_utils

from sparkbeam.plan.model import FUNCTION_URN, PRECOMBINE_URN

_PRECOMBINE = common_urns.combine_components.COMBINE_PER_KEY_PRECOMBINE.urn


def mark_blocks(transforms: dict[str, beam_runner_api_pb2.PTransform]) -> None:
    """Gives transforms that can take blocks of elements sparkbeam's own URNs, in place."""
    for transform in transforms.values():
        if transform.spec.urn == common_urns.primitives.PAR_DO.urn:
            if _is_plain_function(transform):
                transform.spec.urn = FUNCTION_URN
        elif transform.spec.urn == _PRECOMBINE:
            transform.spec.urn = PRECOMBINE_URN


def _is_plain_function(transform: beam_runner_api_pb2.PTransform) -> bool:
    """Whether a ParDo is a function of the element alone, with one output."""
    payload = proto_utils.parse_Bytes(transform.spec.payload, beam_runner_api_pb2.ParDoPayload)
    if (
        payload.side_inputs
        or payload.state_specs
        or payload.timer_family_specs
        or payload.restriction_coder_id
        or payload.requests_finalization
        or payload.do_fn.urn != python_urns.PICKLED_DOFN_INFO
        or len(transform.outputs) != 1
    ):
        return False
    fn: beam.DoFn
    fn, args, kwargs, *_ = pickler.loads(payload.do_fn.payload)
    if not isinstance(fn, core.CallableWrapperDoFn) or args or kwargs:
        return False
    return not common.DoFnSignature(fn).process_method.defaults

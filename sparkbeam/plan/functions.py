"""Tells apart the functions of which ParDos consist."""

from typing import Any

import apache_beam as beam
from apache_beam.internal import pickler
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners import common
from apache_beam.transforms import core
from apache_beam.utils import proto_utils

from sparkbeam.upstream.beam import is_of_create


def plain_function(fn: beam.DoFn, args: Any, kwargs: Any) -> core.CallableWrapperDoFn | None:
    """A DoFn that is a function of the element alone; None for another.

    Args:
        fn: the DoFn.
        args: what it gets beside the element by position.
        kwargs: likewise by name.
    """
    if not isinstance(fn, core.CallableWrapperDoFn) or args or kwargs:
        return None
    return None if common.DoFnSignature(fn).process_method.defaults else fn


def is_create(transform: beam_runner_api_pb2.PTransform) -> bool:
    """Whether a transform is the step of ``beam.Create`` that holds the values."""
    if transform.spec.urn != common_urns.primitives.PAR_DO.urn:
        return False
    payload = proto_utils.parse_Bytes(transform.spec.payload, beam_runner_api_pb2.ParDoPayload)
    if payload.do_fn.urn != python_urns.PICKLED_DOFN_INFO or payload.side_inputs:
        return False
    return is_of_create(plain_function(*pickler.loads(payload.do_fn.payload)[:3]))

"""Protos of a stage: its ends, its steps under their names, and what they say of its input."""

import json

from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import translations
from apache_beam.utils import proto_utils

from sparkbeam.plan.model import Layout


def end(
    label: str,
    urn: str,
    spec: dict[str, object],
    inputs: dict[str, str] | None = None,
    outputs: dict[str, str] | None = None,
) -> beam_runner_api_pb2.PTransform:
    """A source or a sink of a stage."""
    described = beam_runner_api_pb2.FunctionSpec(urn=urn, payload=json.dumps(spec).encode())
    return beam_runner_api_pb2.PTransform(
        unique_name=label, spec=described, inputs=inputs, outputs=outputs
    )


def keyed_layout(transforms: list[beam_runner_api_pb2.PTransform]) -> Layout | None:
    """The layout that a stateful stage reads, or None for a stateless one."""
    stateful = False
    for transform in transforms:
        if transform.spec.urn in translations.PAR_DO_URNS:
            payload = proto_utils.parse_Bytes(
                transform.spec.payload, beam_runner_api_pb2.ParDoPayload
            )
            if payload.requires_time_sorted_input:
                return Layout.TIME_SORTED
            stateful |= bool(payload.state_specs or payload.timer_family_specs)
    return Layout.KEYED if stateful else None


def named(
    transforms: list[beam_runner_api_pb2.PTransform],
) -> dict[str, beam_runner_api_pb2.PTransform]:
    """By the ids that metrics are reported under."""
    named = {}
    for transform in transforms:
        named[transform.unique_name] = beam_runner_api_pb2.PTransform()
        named[transform.unique_name].CopyFrom(transform)
    return named

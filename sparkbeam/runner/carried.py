"""Transforms with a URN of this package, made of a proto.

Beam makes a pipeline's transforms again from its proto before a ``TestPipeline`` runs.
"""

from typing import Any

import apache_beam as beam

from sparkbeam.plan.join_payload import JOIN_URN
from sparkbeam.plan.spark_io import READ_URN, WRITE_URN


class CarriedTransform(beam.PTransform[Any, Any]):
    """A transform that is only its URN and payload."""

    def __init__(self, urn: str, payload: bytes) -> None:
        super().__init__()
        self._urn = urn
        self._payload = payload

    def to_runner_api_parameter(self, unused_context: Any) -> tuple[str, bytes]:
        return self._urn, self._payload


def register() -> None:
    """Let Beam make this package's transforms of their protos."""
    for urn in (READ_URN, WRITE_URN, JOIN_URN):
        beam.PTransform.register_urn(
            urn, bytes, lambda proto, payload, _: CarriedTransform(proto.spec.urn, payload)
        )

"""Payloads of transforms; no other module parses them."""

from collections.abc import Mapping
from typing import Any

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2

from sparkbeam.plan.urns import (
    ASSIGN_WINDOWS,
    COMBINE_PER_KEY,
    PAR_DO,
    PROCESS_RESTRICTIONS,
    TEST_STREAM,
)

_SDF = common_urns.sdf_components
_PAR_DOS = (
    *(PAR_DO, PROCESS_RESTRICTIONS, _SDF.PAIR_WITH_RESTRICTION.urn),
    *(_SDF.SPLIT_AND_SIZE_RESTRICTIONS.urn, _SDF.TRUNCATE_SIZED_RESTRICTION.urn),
)
PAYLOADS: Mapping[str, Any] = {
    **dict.fromkeys(_PAR_DOS, beam_runner_api_pb2.ParDoPayload),
    COMBINE_PER_KEY: beam_runner_api_pb2.CombinePayload,
    ASSIGN_WINDOWS: beam_runner_api_pb2.WindowIntoPayload,
    TEST_STREAM: beam_runner_api_pb2.TestStreamPayload,
    common_urns.deprecated_primitives.READ.urn: beam_runner_api_pb2.ReadPayload,
}
"""Messages by the URN of the transform; the phases of a combine have the payload of the combine."""


def own_payload(urn: str, encoded: bytes) -> Any:
    """Parse the payload of a transform with a URN for a caller who owns the result."""
    return PAYLOADS[urn].FromString(encoded)

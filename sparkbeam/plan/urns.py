"""URNs of the transforms that stages consist of, and their payloads, which nothing else parses."""

from collections.abc import Mapping
from typing import Any

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2

PAR_DO = common_urns.primitives.PAR_DO.urn
PROCESS_RESTRICTIONS = common_urns.sdf_components.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS.urn
FLATTEN = common_urns.primitives.FLATTEN.urn
ASSIGN_WINDOWS = common_urns.primitives.ASSIGN_WINDOWS.urn

TEST_STREAM = common_urns.primitives.TEST_STREAM.urn
COMBINE_PER_KEY = common_urns.composites.COMBINE_PER_KEY.urn
PRECOMBINE = common_urns.combine_components.COMBINE_PER_KEY_PRECOMBINE.urn
MERGE_ACCUMULATORS = common_urns.combine_components.COMBINE_PER_KEY_MERGE_ACCUMULATORS.urn
EXTRACT_OUTPUTS = common_urns.combine_components.COMBINE_PER_KEY_EXTRACT_OUTPUTS.urn

FIRE = "sparkbeam:combine_per_key_fire:v1"
"""Step that makes panes of accumulators with the number of their elements.

Its payload is that of the combine, and its output has the windowing with the trigger.
"""

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

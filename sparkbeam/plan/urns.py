"""URNs of the transforms that stages consist of."""

from apache_beam.portability import common_urns

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

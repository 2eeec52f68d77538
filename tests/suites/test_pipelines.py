"""Beam's own tests of pipelines as a whole: construction, types, coders, metrics, assertions."""

import pytest
from beam_suites import suite

pytestmark = pytest.mark.part(5)

for module in (
    "coders.row_coder_test",
    "metrics.metric_test",
    "pipeline_test",
    "runners.common_test",
    "runners.direct.sdf_direct_runner_test",
    "testing.synthetic_pipeline_test",
    "testing.test_stream_test",
    "testing.util_test",
    "typehints.row_type_test",
    "typehints.tagged_output_typehints_test",
    "typehints.typed_pipeline_test",
):
    globals().update(suite(f"apache_beam.{module}"))

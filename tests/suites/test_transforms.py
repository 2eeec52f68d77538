"""Beam's own tests of its core transforms."""

import pytest
from beam_suites import suite

pytestmark = pytest.mark.part(10)

for module in (
    "batch_dofn_test",
    "combinefn_lifecycle_test",
    "combiners_test",
    "core_test",
    "create_test",
    "deduplicate_test",
    "dofn_lifecycle_test",
    "error_handling_test",
    "ptransform_test",
    "sideinputs_test",
    "stats_test",
    "timestamped_value_type_test",
    "trigger_test",
    "userstate_test",
    "util_test",
    "window_test",
    "write_ptransform_test",
):
    globals().update(suite(f"apache_beam.transforms.{module}"))

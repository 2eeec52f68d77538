"""Further modules of Beam's tests that make pipelines, in batch and in process."""

import pytest
from beam_suites import suite

pytestmark = pytest.mark.part(8)

RUNNER = "in_process_batch.BatchRunner"

OTHERS = (
    "ml.inference.base_test",
    "ml.inference.utils_test",
    "ml.rag.chunking.base_test",
    "ml.transforms.base_test",
    "transforms.fully_qualified_named_transform_test",
    "transforms.periodicsequence_test",
    "transforms.transforms_keyword_only_args_test",
    "typehints.typecheck_test",
    "yaml.main_test",
)

for module in OTHERS:
    globals().update(suite(f"apache_beam.{module}"))

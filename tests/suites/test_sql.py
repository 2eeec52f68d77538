"""Beam's own tests of its SQL."""

import pytest
from apache_beam.testing.test_pipeline import TestPipeline
from beam_suites import suite

pytest.importorskip("sqlglot")

with pytest.MonkeyPatch.context() as patch:
    # They skip themselves without a runner at the time at which they are imported.
    patch.setattr(TestPipeline, "pytest_test_pipeline_options", "--runner=runners.BatchOnSpark")
    globals().update(suite("apache_beam.transforms.sql_test"))

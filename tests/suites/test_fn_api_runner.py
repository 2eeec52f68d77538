"""Beam's ``FnApiRunnerTest``, the whole class, over this runner."""

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import fn_runner_test

from sparkbeam import SparkRunner


@pytest.mark.usefixtures("spark")
class TestFnApiSuite(fn_runner_test.FnApiRunnerTest):
    def create_pipeline(self, is_drain: bool = False) -> beam.Pipeline:
        return beam.Pipeline(runner=SparkRunner(drain=is_drain))

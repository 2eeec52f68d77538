"""Beam's ``FnApiRunnerTest``, the whole class, in batch on Spark.

Its streaming pipelines run in process here, and in ``test_streaming_on_spark.py`` on Spark.
"""

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import fn_runner_test
from runners import BatchOnSpark


@pytest.mark.usefixtures("spark")
class TestFnApiSuite(fn_runner_test.FnApiRunnerTest):
    def create_pipeline(self, is_drain: bool = False) -> beam.Pipeline:
        return beam.Pipeline(runner=BatchOnSpark(drain=is_drain))

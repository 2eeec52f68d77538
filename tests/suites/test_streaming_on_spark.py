"""Beam's own streaming tests on Spark, a part of them."""

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner_test
from beam_suites import suite, validates_runner_suite
from expected_failures import ON_SPARK_FAILURES

from sparkbeam import SparkRunner
from sparkbeam.spark.capabilities import WITHOUT, Capability, has, is_available

pytestmark = pytest.mark.part(61)

RUNNER = "sparkbeam.SparkRunner"


@pytest.fixture(scope="module", autouse=True)
def streams(spark: Any) -> None:
    if not has(spark, Capability.STATE):
        pytest.skip(WITHOUT[Capability.STATE])
    if not (has(spark, Capability.AVAILABLE_NOW) or is_available(spark, Capability.ENDLESS)):
        pytest.skip("neither endless triggers nor available-now of Python sources")


@pytest.mark.usefixtures("spark")
class TestFnApiSuite(fn_runner_test.FnApiRunnerTest):
    def create_pipeline(self, is_drain: bool = False) -> beam.Pipeline:
        return beam.Pipeline(
            runner=SparkRunner(drain=is_drain), options=PipelineOptions(streaming=True)
        )


STREAMING = (
    "combiners_test.TimestampCombinerTest",
    "deduplicate_test.",
    "trigger_test.T",
    "trigger_test.W",
    "userstate_test.StatefulDoFnOnDirectRunnerTest",
)
found = validates_runner_suite(ON_SPARK_FAILURES)
for module in ("combiners_test", "deduplicate_test", "trigger_test", "userstate_test"):
    found |= suite(f"apache_beam.transforms.{module}", ON_SPARK_FAILURES)
globals().update({name: case for name, case in found.items() if name.startswith(STREAMING)})

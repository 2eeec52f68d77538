"""Beam's own tests with all pipelines as streaming queries, in process."""

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner_test
from beam_suites import suite, validates_runner_suite
from expected_failures import STREAMING_FAILURES
from in_process import StreamingRunner

pytestmark = pytest.mark.part(4)

RUNNER = "in_process.StreamingRunner"


class TestFnApiSuite(fn_runner_test.FnApiRunnerTest):
    def create_pipeline(self, is_drain: bool = False) -> beam.Pipeline:
        return beam.Pipeline(
            runner=StreamingRunner(drain=is_drain), options=PipelineOptions(streaming=True)
        )


found = validates_runner_suite(STREAMING_FAILURES)
for module in (
    "combiners_test",
    "create_test",
    "deduplicate_test",
    "sideinputs_test",
    "trigger_test",
    "userstate_test",
    "util_test",
    "window_test",
):
    found |= suite(f"apache_beam.transforms.{module}", STREAMING_FAILURES)
# What is a TestStream anyway runs with the other tests of its module.
globals().update({name: case for name, case in found.items() if "TestStream" not in name})

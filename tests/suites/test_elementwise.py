"""Beam's own tests with Beam's own operations for all steps, in process."""

from collections.abc import Iterator

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner_test
from beam_suites import suite
from expected_failures import STREAMING_FAILURES
from in_process import StreamingRunner
from in_process_batch import BatchRunner

from sparkbeam.operators import registry

pytestmark = pytest.mark.part(16)

RUNNER = "in_process.StreamingRunner"


@pytest.fixture(autouse=True, scope="module")
def without_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "OPERATORS", registry.ELEMENTWISE)
        yield


class TestBatch(fn_runner_test.FnApiRunnerTest):
    def create_pipeline(self, is_drain: bool = False) -> beam.Pipeline:
        return beam.Pipeline(runner=BatchRunner(drain=is_drain))


class TestStreaming(fn_runner_test.FnApiRunnerTest):
    def create_pipeline(self, is_drain: bool = False) -> beam.Pipeline:
        return beam.Pipeline(
            runner=StreamingRunner(drain=is_drain), options=PipelineOptions(streaming=True)
        )


for module in ("combiners_test", "sideinputs_test", "trigger_test", "userstate_test", "util_test"):
    globals().update(suite(f"apache_beam.transforms.{module}", STREAMING_FAILURES))

"""Every query over a stream that ends gives the results of batch."""

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from in_process import StreamingRunner

from beam_nexmark.configuration import Configuration
from beam_nexmark.engine import Engine, prepared
from beam_nexmark.measure import Measurement
from beam_nexmark.queries import QUERIES
from beam_nexmark.record import PASSED

EVENTS = 3000
OPTIONS = ["--streaming", "--allow_unsafe_triggers", "--spark_progress=off"]


def checked(engine, number):
    configuration = Configuration(events=EVENTS)
    run = Measurement(engine, configuration, check=True).run(QUERIES[number])
    return run.failure or run.checked


@pytest.mark.part(5)
@pytest.mark.parametrize("number", QUERIES)
def test_a_query_over_a_stream_gives_the_results_of_batch(number):
    engine = Engine("in process", StreamingRunner(), PipelineOptions(OPTIONS), 2, streaming=True)

    assert checked(engine, number) == PASSED


@pytest.mark.long("half a minute each; the README's test command runs Nexmark as a stream")
@pytest.mark.parametrize("number", [3, 11])
def test_so_it_does_on_spark(number, spark):
    assert checked(prepared("SparkRunner", [], streaming=True), number) == PASSED

"""The queries in SQL against the reference simulator, in batch and in streaming."""

from dataclasses import replace

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from in_process_batch import BatchRunner

from beam_nexmark.beam_source import NexmarkEvents
from beam_nexmark.configuration import Configuration
from beam_nexmark.reference import reference_results
from beam_nexmark.result_digest import Summarize, summary
from beam_nexmark.stream import NexmarkStream
from sparkbeam.runner.spark_runner import SparkRunner

pytest.importorskip("sqlglot")

from beam_nexmark.queries.sql import SQL_QUERIES

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.part(2)]

LIVELY = Configuration(
    events=3_000,
    generators=2,
    event_rate=240,
    in_flight_auctions=10,
    active_people=20,
    auction_skip=7,
    window_size=4,
    window_period=2,
    side_input_rows=30,
)
WINDOWED = (5, 7, 8, 11)
"""Queries that need no Spark."""


@pytest.mark.parametrize("number", SQL_QUERIES)
def test_a_query_answers_as_the_reference_does(number, request):
    windowed = number in WINDOWED
    runner = BatchRunner() if windowed else SparkRunner(request.getfixturevalue("spark"))
    query = SQL_QUERIES[number]
    expected = summary(reference_results(query, LIVELY), query.weigh)

    with beam.Pipeline(runner=runner) as pipeline:
        results = query.build(pipeline | NexmarkEvents(LIVELY), LIVELY)
        assert_that(results | Summarize(query.weigh), equal_to([expected]))


@pytest.mark.parametrize("number", SQL_QUERIES)
def test_a_query_of_a_stream_answers_as_the_reference_does(number):
    some = replace(LIVELY, events=600)
    query = SQL_QUERIES[number]
    expected = summary(reference_results(query, some), query.weigh)
    options = PipelineOptions(["--streaming", "--allow_unsafe_triggers"])
    with beam.Pipeline(runner=BatchRunner(), options=options) as pipeline:
        results = query.build(pipeline | NexmarkStream(some), some)
        assert_that(results | Summarize(query.weigh), equal_to([expected]))

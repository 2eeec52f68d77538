"""Every query against the reference simulator, on sparkbeam and on Beam's own runner."""

from collections import Counter
from dataclasses import replace

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing import test_stream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from plans import planned

from beam_nexmark.beam_source import NexmarkEvents
from beam_nexmark.configuration import Configuration
from beam_nexmark.event_files import json_line
from beam_nexmark.events import Auction, Bid, Event, EventCoder, Person
from beam_nexmark.generator import EventBatch, in_generator_order
from beam_nexmark.queries import QUERIES
from beam_nexmark.reference import reference_results
from beam_nexmark.result_digest import Summarize, summary
from sparkbeam.plan.grouping import GroupStrategy, SessionAggregator
from sparkbeam.plan.row_formats import AggregateRows
from sparkbeam.runner.spark_runner import SparkRunner

# Some ask for the session as they run.
pytestmark = pytest.mark.xdist_group("spark")

LIVELY = Configuration(
    events=6_000,
    generators=4,
    event_rate=240,
    out_of_order_group_size=10,
    in_flight_auctions=10,
    active_people=20,
    auction_skip=7,
    session_gap=2,
    window_size=4,
    window_period=2,
    side_input_rows=30,
    max_log_events=50,
    log_shards=3,
    key_buckets=100,
)
"""Some 25 seconds of events, so that windows, sessions and auctions begin and end."""


LACKS = {11: "FnApiRunner loses what no trigger lets out", 12: "FnApiRunner has no clock in batch"}
"""What Beam's own runner lacks for a query."""


@pytest.fixture(params=["sparkbeam", "FnApiRunner"])
def runner(request):
    if request.param == "sparkbeam":
        return SparkRunner(request.getfixturevalue("spark"))
    return FnApiRunner()


@pytest.mark.part(5)
@pytest.mark.parametrize("number", QUERIES)
def test_query_answers_as_the_reference_does(number, runner):
    if isinstance(runner, FnApiRunner) and number in LACKS:
        pytest.skip(LACKS[number])
    query = QUERIES[number]
    expected = summary(reference_results(query, LIVELY), query.weigh)

    with beam.Pipeline(runner=runner) as pipeline:
        results = query.build(pipeline | NexmarkEvents(LIVELY), LIVELY)
        assert_that(results | Summarize(query.weigh), equal_to([expected]))


def test_the_reference_sees_something_of_each_query():
    counts = {number: len(reference_results(QUERIES[number], LIVELY)) for number in QUERIES}

    assert min(counts.values()) > 2, counts


@pytest.mark.parametrize(
    ("events", "counts"),
    [
        (10_000, {4: 40, 9: 298}),
        (100_000, {0: 100_000, 1: 92_000, 2: 351, 3: 580, 5: 12, 7: 1, 8: 6_000, 11: 1_919}),
    ],
)
def test_the_reference_gives_as_many_results_as_other_implementations(events, counts):
    configuration = Configuration(events=events)

    found = {number: len(reference_results(QUERIES[number], configuration)) for number in counts}

    assert found == counts


def test_sessions_of_query_11_are_combined_over_columns_before_a_trigger_fires_them():
    plan = planned(lambda p: QUERIES[11].build(p | NexmarkEvents(LIVELY), LIVELY))
    (how,) = (stage.grouping for stage in plan.stages if stage.grouping is not None)

    assert how.strategy is GroupStrategy.SESSIONS
    assert how.format == AggregateRows(sessions=True)
    assert how.aggregator is SessionAggregator.COLUMNAR
    assert "on which Repeatedly(AfterCount(50)) fires" in how.reason


def test_queries_are_numbered_and_asked_in_their_own_words():
    assert list(QUERIES) == list(range(17))
    assert all(query.number == number for number, query in QUERIES.items())
    assert all(query.question.endswith(("?", ".")) for query in QUERIES.values())
    assert len({query.name for query in QUERIES.values()}) == len(QUERIES)


def person(seconds, number):
    return Person(number, "Kate Jones", "k@j.com", "", "Bend", "OR", seconds * 1000, "")


def auction(seconds, number, seller=1, expires=100, reserve=10):
    times = (seconds * 1000, expires * 1000)
    return Auction(number, "", "", 1, reserve, *times, seller, 10, "")


def bid(seconds, price, bidder=1, of=7):
    return Bid(of, bidder, price, int(seconds * 1000), "")


def at_their_times(*events):
    return [TimestampedValue(event, Timestamp(event.date_time / 1000)) for event in events]


class TestLocalItems:
    CONFIGURATION = Configuration(max_auctions_waiting_time=60)

    def test_auctions_join_their_seller_in_any_order_until_the_seller_is_forgotten(self):
        stream = (
            test_stream.TestStream(coder=EventCoder())
            .advance_watermark_to(0)
            .add_elements(at_their_times(auction(1, 100), person(2, 1), auction(3, 101)))
            .advance_watermark_to(200)
            .add_elements(at_their_times(auction(200, 102)))
            .advance_watermark_to_infinity()
        )
        runner = BundleBasedDirectRunner()
        with beam.Pipeline(runner=runner, options=streaming()) as pipeline:
            events = pipeline | stream.with_output_types(Event)
            items = QUERIES[3].build(events, self.CONFIGURATION)
            assert_that(items | beam.Map(lambda item: item.auction), equal_to([100, 101]))


class TestWinningBids:
    @pytest.mark.parametrize(
        ("bids", "winner"),
        [
            pytest.param([bid(2, 50), bid(3, 60)], bid(3, 60), id="the highest"),
            pytest.param([bid(3, 60, 1), bid(2, 60, 2)], bid(2, 60, 2), id="the earliest of them"),
            pytest.param([bid(2, 50), bid(100, 60)], bid(2, 50), id="none after the close"),
            pytest.param([bid(99.999, 60)], bid(99.999, 60), id="one just before it"),
            pytest.param([bid(0, 60)], bid(0, 60), id="one before the auction is there"),
            pytest.param([bid(2, 10)], bid(2, 10), id="one at the reserve"),
            pytest.param([bid(2, 9)], None, id="none below it"),
            pytest.param([bid(2, 60, of=8)], None, id="none for another auction"),
        ],
    )
    def test_the_winner_is(self, bids, winner):
        events = at_their_times(*bids, auction(1, 7))
        with beam.Pipeline(runner=FnApiRunner()) as pipeline:
            won = QUERIES[9].build(given(pipeline, events), Configuration(event_rate=1))
            expected = [(auction(1, 7), winner)] if winner else []
            assert_that(won, equal_to(expected))

    def test_they_come_when_the_auction_closes(self):
        events = at_their_times(bid(2, 60), auction(1, 7))
        with beam.Pipeline(runner=FnApiRunner()) as pipeline:
            won = QUERIES[9].build(given(pipeline, events), Configuration(event_rate=1))
            times = won | beam.Map(lambda _, time=beam.DoFn.TimestampParam: time.micros // 1000)
            assert_that(times, equal_to([99_999]))


def test_log_files_hold_each_event_once_and_the_index_names_them(tmp_path, runner):
    configuration = replace(LIVELY, log_folder=str(tmp_path))
    with beam.Pipeline(runner=runner) as pipeline:
        QUERIES[10].build(pipeline | NexmarkEvents(configuration), configuration)

    logs = {path.name: path.read_text().splitlines() for path in tmp_path.glob("LOG-*")}
    named = [line for path in tmp_path.glob("INDEX-*") for line in path.read_text().splitlines()]
    numbers = in_generator_order(configuration, 0, configuration.events)
    events = EventBatch.generate(configuration, numbers).to_python()
    assert sorted(named) == sorted(logs)
    assert Counter(line for lines in logs.values() for line in lines) == Counter(
        map(json_line, events)
    )


def test_bids_in_processing_time_count_alike_however_they_fall_into_panes():
    weigh = QUERIES[12].weigh

    assert summary([(1, 3), (2, 1)], weigh) == summary([(1, 1), (2, 1), (1, 2)], weigh)
    assert summary([(1, 3), (2, 1)], weigh) != summary([(1, 2), (2, 2)], weigh)


def given(pipeline, events):
    return pipeline | beam.Create(events) | beam.Map(lambda event: event).with_output_types(Event)


def streaming():
    return PipelineOptions(["--streaming"])

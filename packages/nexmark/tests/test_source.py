"""The three ways to the generator's events: a Beam source, a Spark data source, and files."""

import json
from typing import Any

import apache_beam as beam
import pyarrow.parquet as pq
import pytest
from apache_beam.coders import RowCoder, registry
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineRunner
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.utils.timestamp import Timestamp

from beam_nexmark.beam_source import NexmarkEvents
from beam_nexmark.configuration import Configuration
from beam_nexmark.datasource import NexmarkDataSource
from beam_nexmark.event_files import write_json, write_parquet
from beam_nexmark.events import KINDS, Bid, Event, EventCoder, Person
from beam_nexmark.generator import EventBatch, bids, in_generator_order
from sparkbeam.runner.spark_runner import SparkRunner

# Some ask for the session as they run.
pytestmark = pytest.mark.xdist_group("spark")

CONFIGURATION = Configuration(events=2_003, generators=7, out_of_order_group_size=3)


def events():
    numbers = in_generator_order(CONFIGURATION, 0, CONFIGURATION.events)
    return EventBatch.generate(CONFIGURATION, numbers).to_python()


@pytest.mark.parametrize("name", ["sparkbeam", "FnApiRunner"])
def test_beam_reads_each_event_at_its_time(name, request):
    runner: PipelineRunner = FnApiRunner()
    if name == "sparkbeam":
        runner = SparkRunner(request.getfixturevalue("spark"))
    with beam.Pipeline(runner=runner) as pipeline:
        read = (
            pipeline
            | NexmarkEvents(CONFIGURATION)
            | beam.Map(lambda event, timestamp=beam.DoFn.TimestampParam: (event, timestamp))
        )
        expected = [(event, Timestamp(micros=event.date_time * 1000)) for event in events()]
        assert_that(read, equal_to(expected))


def test_a_plain_number_is_enough():
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        count = pipeline | NexmarkEvents(1_234) | beam.combiners.Count.Globally()
        assert_that(count, equal_to([1_234]))


class TestCoders:
    def test_mixed_events_have_a_deterministic_coder(self):
        coder = registry.get_coder(Event)

        assert coder == EventCoder()
        assert coder.is_deterministic()
        assert [coder.decode(coder.encode(event)) for event in events()] == events()

    def test_equal_events_are_equal_bytes_however_they_share_strings(self):
        text = "x" * 10
        shared = Person(1, text, text, text, text, text, 2, text)
        parts: list[Any] = [1, *("".join(list(text)) for _ in range(5)), 2, "xx" * 5]
        apart = Person(*parts)

        assert EventCoder().encode(shared) == EventCoder().encode(apart)

    @pytest.mark.parametrize("kind", KINDS)
    def test_each_kind_has_a_schema(self, kind):
        coder = registry.get_coder(kind)

        assert isinstance(coder, RowCoder)
        assert [field.name for field in coder.schema.fields] == list(kind._fields)


class TestSparkDataSource:
    @pytest.fixture
    def read(self, spark):
        spark.dataSource.register(NexmarkDataSource)
        options = {"events": 2_003, "generators": 7, "out_of_order_group_size": 3}
        return spark.read.format("nexmark").options(**options)

    def test_has_a_row_an_event(self, read):
        rows = read.load().collect()

        found = [
            kind(**row[kind.__name__.lower()].asDict())
            for row in rows
            for kind in KINDS
            if row[kind.__name__.lower()]
        ]
        assert found == events()

    def test_has_a_row_a_bid(self, read):
        rows = read.option("kind", "bid").load().collect()

        assert [tuple(row) for row in rows] == [one for one in events() if isinstance(one, Bid)]

    def test_makes_only_the_columns_of_the_schema(self, read):
        rows = read.option("kind", "bid").schema("price bigint, bidder bigint").load().collect()

        whole = bids(CONFIGURATION, in_generator_order(CONFIGURATION, 0, 2_003))
        expected = whole.select(["price", "bidder"]).to_pylist()
        assert [row.asDict() for row in rows] == expected

    def test_spark_shows_what_it_says_of_options(self, read):
        with pytest.raises(Exception, match="no kind 'sale'"):
            read.option("kind", "sale").load()


class TestFiles:
    def test_json_is_that_of_beams_own_nexmark(self, tmp_path):
        write_json(CONFIGURATION, tmp_path / "events.json")

        lines = (tmp_path / "events.json").read_text().splitlines()
        assert [tuple(json.loads(line).values()) for line in lines] == events()
        assert lines[0].startswith('{"id":1000,"name":"')
        person, auction, bid = (",".join(json.loads(lines[place])) for place in (0, 2, 10))
        assert person == "id,name,emailAddress,creditCard,city,state,dateTime,extra"
        assert auction == (
            "id,itemName,description,initialBid,reserve,dateTime,expires,seller,category,extra"
        )
        assert bid == "auction,bidder,price,dateTime,extra"

    def test_parquet_has_a_row_an_event(self, tmp_path):
        write_parquet(CONFIGURATION, tmp_path / "events.parquet")

        numbers = in_generator_order(CONFIGURATION, 0, CONFIGURATION.events)
        expected = EventBatch.generate(CONFIGURATION, numbers).to_arrow()
        found = pq.read_table(tmp_path / "events.parquet")
        assert found.to_pylist() == expected.to_pylist()

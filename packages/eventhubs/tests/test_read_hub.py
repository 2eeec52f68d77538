"""What the transform that reads a hub is told becomes options of the data source, or an error."""

import pickle
from datetime import UTC, datetime
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from payloads import payload

from pyspark_eventhubs.settings import ConnectionSettings
from pyspark_eventhubs.source_options import SourceOptions
from sparkbeam import SparkRunner
from sparkbeam.plan.redaction import Redaction
from sparkbeam.plan.spark_io import READ_URN, ReadSpec
from sparkbeam_eventhubs import EventHubsEvent, EventPosition, ReadFromEventHubs, SlowPartitions
from sparkbeam_eventhubs.connection import connection_of

TEXT = "Endpoint=sb://hub.example/;SharedAccessKeyName=a;SharedAccessKey=geheim"
GIVEN = "Endpoint=sb://hub.example/;SharedAccessKeyName=a;SharedAccessKey=other;EntityPath=views"


def spec_of(transform: ReadFromEventHubs, *arguments: str) -> ReadSpec:
    """What Spark is told to read."""
    pipeline = beam.Pipeline(runner=SparkRunner(), options=PipelineOptions([*arguments]))
    events = pipeline | transform
    assert events.element_type is EventHubsEvent
    return ReadSpec.unpack(payload(READ_URN, pipeline))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, {"most": None, "rate": {}, "start": None, "end": None, "slow": None}),
        ({"consumer_group": "counts"}, {"group": "counts"}),
        ({"starting_position": EventPosition.start()}, {"start": EventPosition.start()}),
        ({"starting_positions": {}}, {"starts": {}}),
        (
            {"starting_positions": {np.int64(1): EventPosition.sequence_number(7)}},
            {"starts": {"1": EventPosition.sequence_number(7)}},
        ),
        (
            {"ending_positions": {0: EventPosition.enqueued(datetime(2030, 1, 31))}},
            {"ends": {"0": EventPosition.enqueued(datetime(2030, 1, 31, tzinfo=UTC))}},
        ),
        (
            {"ending_position": EventPosition.offset("700", inclusive=False)},
            {"end": EventPosition.offset("700", inclusive=False)},
        ),
        ({"max_events_per_trigger": 0}, {"most": 0}),
        ({"max_events_per_trigger": np.int32(70)}, {"most": 70}),
        ({"max_rate_per_partition": 60}, {"rate": {"*": 60}}),
        ({"max_rate_per_partition": np.int64(60)}, {"rate": {"*": 60}}),
        ({"max_rate_per_partition": {0: 5, 12: 6}}, {"rate": {"0": 5, "12": 6}}),
        ({"max_rate_per_partition": {}}, {"rate": {}}),
        ({"prefetch": 7}, {"prefetch": 7}),
        ({"receiver_timeout": 0.5}, {"receiver_timeout": 0.5}),
        ({"operation_timeout": 7}, {"operation_timeout": 7.0}),
        ({"discover_partitions": 0}, {"discover": 0.0}),
        ({"discover_partitions": None}, {"discover": None}),
        ({"exclusive": False}, {"exclusive": False}),
        ({"fail_on_data_loss": False}, {"fail_on_data_loss": False}),
        ({"timestamp": "at"}, {"timestamp_property": "at"}),
        ({"exclusive": None}, {"exclusive": True}),
        ({"timestamp": "enqueued"}, {"timestamp_property": None}),
        ({"placement": "hash"}, {"placement": "hash"}),
        ({"slow_partitions": SlowPartitions()}, {"slow": SlowPartitions(30)}),
        ({"slow_partitions": SlowPartitions(threshold=7)}, {"slow": SlowPartitions(7)}),
    ],
)
def test_each_form_of_an_argument_is_an_option(given: Any, found: dict[str, Any]) -> None:
    options = SourceOptions.parse(dict(spec_of(ReadFromEventHubs(GIVEN, **given)).options))
    assert {name: getattr(options, name) for name in found} == found


def test_each_partition_has_a_watermark() -> None:
    given: Any = {"timestamp": "at", "watermark_delay": 3, "idle_timeout": None}
    transform = ReadFromEventHubs(GIVEN, "clicks", **given)
    spec = spec_of(transform, "--streaming")
    assert SourceOptions.parse(dict(spec.options)).connection.endpoint().hub == "clicks"
    assert (spec.timestamp_column, spec.delay, spec.idle) == ("event_time", 3_000_000, None)
    assert spec.is_partitioned
    assert spec.tells_partitions
    assert spec.partition_columns == ("event_hub", "partition")
    assert spec.columns == EventHubsEvent._fields


def test_the_key_is_known_to_be_secret_and_shown_nowhere() -> None:
    transform = ReadFromEventHubs(TEXT, "clicks")
    spec = spec_of(transform)
    assert "geheim" not in f"{spec}{transform}{SourceOptions.parse(dict(spec.options))}"
    assert "geheim" not in Redaction(spec.options)("the key is geheim, yes")


def test_a_connection_is_a_text_a_variable_a_function_or_a_credential(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HUB", GIVEN)
    for given in ("env:HUB", lambda: GIVEN, GIVEN):
        made = connection_of(given, None, None, None)
        assert GIVEN not in repr(made)
        again = ConnectionSettings.of_options({n.lower(): v for n, v in made.options().items()})
        assert pickle.loads(pickle.dumps(again)).endpoint().hub == "views"
    assert connection_of("env:HUB", "own", None, None).endpoint().hub == "own"
    made = connection_of(None, "clicks", "hub.example", lambda: "credential")
    assert made.endpoint().host == "hub.example"
    assert made.endpoint().credential == "credential"

"""An event hub over its Kafka endpoint: what Spark's source and sink are told."""

import pickle
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.utils.timestamp import Timestamp
from hubs import EARLY
from payloads import payload

from sparkbeam import SparkRunner
from sparkbeam.plan.redaction import Redaction
from sparkbeam.plan.spark_io import READ_URN, WRITE_URN, ReadSpec, WriteSpec
from sparkbeam_eventhubs import (
    EventHubsEvent,
    EventPosition,
    ReadFromEventHubs,
    WriteToEventHubs,
)
from sparkbeam_eventhubs.kafka_endpoint import _Record, event_of

TEXT = "Endpoint=sb://my.servicebus.windows.net/;SharedAccessKeyName=a;SharedAccessKey=geheim"


def read(**given: Any) -> ReadSpec:
    """What Spark is told to read."""
    pipeline = beam.Pipeline(runner=SparkRunner(), options=PipelineOptions([]))
    given = {"connection_string": TEXT, "event_hub": "clicks"} | given
    events = pipeline | ReadFromEventHubs(endpoint="kafka", **given)
    assert events.element_type is EventHubsEvent
    return ReadSpec.unpack(payload(READ_URN, pipeline))


def write(**given: Any) -> WriteSpec:
    """What Spark is told to write."""
    pipeline = beam.Pipeline(runner=SparkRunner(), options=PipelineOptions([]))
    given = {"connection_string": TEXT, "event_hub": "clicks"} | given
    _ = pipeline | beam.Create([b"x"]) | WriteToEventHubs(endpoint="kafka", **given)
    return WriteSpec.unpack(payload(WRITE_URN, pipeline))


CONNECTED = {
    "kafka.bootstrap.servers": "my.servicebus.windows.net:9093",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="$ConnectionString" password="{TEXT}";'
    ),
    "kafka.request.timeout.ms": "60000",
    "kafka.connections.max.idle.ms": "180000",
    "kafka.metadata.max.age.ms": "180000",
}


def test_a_hub_is_read_as_a_topic() -> None:
    spec = read(watermark_delay=3, idle_timeout=7)
    assert dict(spec.options) == CONNECTED | {
        "subscribe": "clicks",
        "includeHeaders": "true",
        "failOnDataLoss": "true",
    }
    assert (spec.format, spec.timestamp_column) == ("kafka", "timestamp")
    assert (spec.delay, spec.idle) == (3_000_000, 7_000_000)
    assert spec.tells_partitions
    assert spec.partition_columns == ("topic", "partition")


def test_what_kafka_has_too_is_told() -> None:
    options = dict(
        read(
            consumer_group="counts",
            starting_position=EventPosition.start(),
            ending_position=EventPosition.enqueued(EARLY),
            max_events_per_trigger=70,
            fail_on_data_loss=False,
        ).options
    )
    assert options["kafka.group.id"] == "counts"
    assert options["startingOffsets"] == "earliest"
    assert options["endingTimestamp"] == str(round(EARLY.timestamp() * 1000))
    assert options["maxOffsetsPerTrigger"] == "70"
    assert options["failOnDataLoss"] == "false"
    options = dict(
        read(
            starting_position=EventPosition.enqueued(EARLY), ending_position=EventPosition.end()
        ).options
    )
    assert options["startingTimestamp"] == str(round(EARLY.timestamp() * 1000))
    assert options["startingOffsetsByTimestampStrategy"] == "latest"
    assert options["endingOffsets"] == "latest"


def test_a_hub_is_written_to_as_a_topic() -> None:
    spec = write(partition_key="k")
    assert dict(spec.options) == CONNECTED | {"topic": "clicks"}
    assert spec.format == "kafka"


def test_an_emulator_has_no_encryption() -> None:
    local = f"{TEXT};UseDevelopmentEmulator=true;EntityPath=views"
    options = dict(read(connection_string=local.replace("windows.net", "net:5672")).options)
    assert options["kafka.bootstrap.servers"] == "my.servicebus.net:9092"
    assert options["kafka.security.protocol"] == "SASL_PLAINTEXT"


def test_a_password_cannot_end_its_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB", f'{TEXT};Note=a"b\\c')
    for given in ("env:HUB", lambda: f'{TEXT};Note=a"b\\c'):
        jaas = dict(read(connection_string=given).options)["kafka.sasl.jaas.config"]
        assert jaas.endswith(';Note=a\\"b\\\\c";')


def test_the_key_is_known_to_be_secret_and_shown_nowhere() -> None:
    for spec in (read(), write()):
        assert "geheim" not in repr(spec)
        assert "geheim" not in Redaction(spec.options)("the key is geheim, yes")


def test_a_record_is_an_event() -> None:
    header = beam.Row(key="n", value=b"5")
    row = beam.Row(
        key="ключ".encode(),
        value=b"body",
        partition=3,
        offset=17,
        timestamp=Timestamp(5),
        headers=[header, beam.Row(key="none", value=None)],
    )
    assert event_of(row) == EventHubsEvent(
        b"body", 3, "17", 17, Timestamp(5), None, "ключ", {"n": "5", "none": None}, {}
    )
    empty = beam.Row(
        key=None, value=None, partition=0, offset=0, timestamp=Timestamp(0), headers=None
    )
    assert event_of(empty) == EventHubsEvent(b"", 0, "0", 0, Timestamp(0), None, None, {}, {})


def record(element: Any, **given: Any) -> dict[str, Any]:
    """What becomes of an element."""
    transform = WriteToEventHubs(TEXT, "clicks", endpoint="kafka", **given)
    made = pickle.loads(pickle.dumps(_Record(transform._sending)))
    found: dict[str, Any] = made(element)
    assert set(found) == set(made.schema.names)
    return found


def test_an_element_is_a_record() -> None:
    assert record("ä") == {"value": "ä".encode()}
    assert record(b"x", partition_key="k") == {"value": b"x", "key": "k"}
    assert record(b"x", partition_id=len) == {"value": b"x", "partition": 1}
    found = record(b"x", properties={"n": 5, "b": True, "y": b"\xff", "none": None, "at": EARLY})
    assert found["headers"] == [
        {"key": "n", "value": b"5"},
        {"key": "b", "value": b"true"},
        {"key": "y", "value": b"\xff"},
        {"key": "none", "value": None},
        {"key": "at", "value": EARLY.isoformat().encode()},
    ]

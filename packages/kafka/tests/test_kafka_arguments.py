"""Arguments of Beam's Kafka transforms: kept, translated, or hints."""

import enum
import pickle
import typing
from collections.abc import Mapping
from functools import partial
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.io import kafka
from apache_beam.io.kafka import ReadFromKafka, WriteToKafka
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.typehints.schemas import named_fields_from_element_type
from kafka_options import subscription_of
from payloads import payload

from sparkbeam import SparkRunner
from sparkbeam.errors import ConfigurationError
from sparkbeam.hooks.managed_config import ManagedConfig
from sparkbeam.plan.redaction import Redaction
from sparkbeam.plan.spark_io import READ_URN, WRITE_URN, ReadSpec, WriteSpec
from sparkbeam_kafka import constructors as kafka_settings
from sparkbeam_kafka.arguments import checked_write
from sparkbeam_kafka.transactions import TransactionWriter, producer_config
from sparkbeam_kafka.write import _Row

RESHUFFLE = "beam:transform:reshuffle:v1"
SERIALIZATION = "org.apache.kafka.common.serialization."
STREAMING = ("--streaming",)
EARLIEST = {"auto.offset.reset": "earliest"}
SECRET = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" '
SECRET += 'password="geheim";'


class Level(enum.StrEnum):
    """A setting of a program."""

    COMMITTED = "read_committed"


def pipeline(options: typing.Sequence[str] = ()) -> beam.Pipeline:
    return beam.Pipeline(runner=SparkRunner(), options=PipelineOptions([*options]))


def read(
    config: Mapping[str, Any], *, options: typing.Sequence[str] = STREAMING, **given: Any
) -> ReadSpec:
    """What Spark is told to read."""
    whole = pipeline(options)
    _ = whole | ReadFromKafka({"bootstrap.servers": "h:1", **config}, **{"topics": ["t"], **given})
    return ReadSpec.unpack(payload(READ_URN, whole))


def write(elements: Any = ((b"k", b"v"),), **given: Any) -> WriteSpec:
    """What Spark is told to write."""
    whole = pipeline()
    arguments = {"producer_config": {"bootstrap.servers": "h:1"}, "topic": "t", **given}
    _ = whole | beam.Create(elements) | WriteToKafka(**arguments)
    return WriteSpec.unpack(payload(WRITE_URN, whole))


def test_the_configuration_of_the_consumer_is_that_of_the_source() -> None:
    spec = read({"isolation.level": "read_committed", "max.poll.records": "5"}, topics=["a", "b"])
    assert spec.format == "kafka"
    assert dict(spec.options) == {
        "kafka.bootstrap.servers": "h:1",
        "kafka.isolation.level": "read_committed",
        "kafka.max.poll.records": "5",
        "subscribe": "a,b",
        "startingOffsets": "latest",
        "includeHeaders": "false",
        "failOnDataLoss": "true",
    }


def test_settings_that_spark_refuses_are_not_passed_to_it() -> None:
    config = {
        **EARLIEST,
        "enable.auto.commit": "false",
        "auto.commit.interval.ms": "5",
        "key.deserializer": "a",
        "value.deserializer": "b",
    }
    kafka = {name for name, _ in read(config).options if name.startswith("kafka.")}
    assert kafka == {"kafka.bootstrap.servers"}


@pytest.mark.parametrize(
    ("options", "config", "more", "start"),
    [
        (STREAMING, {}, {}, ("startingOffsets", "latest")),
        (STREAMING, EARLIEST, {}, ("startingOffsets", "earliest")),
        ((), EARLIEST, {}, ("startingOffsets", "earliest")),
        (STREAMING, EARLIEST, {"start_read_time": 7000}, ("startingTimestamp", "7000")),
        ((), {}, {"start_read_time": 7000}, ("startingTimestamp", "7000")),
    ],
)
def test_a_read_starts_where_a_consumer_does(
    options: typing.Sequence[str],
    config: Mapping[str, str],
    more: dict[str, Any],
    start: tuple[str, str],
) -> None:
    spec = read(config, options=options, **more)
    starts = [(n, v) for n, v in spec.options if n in ("startingOffsets", "startingTimestamp")]
    assert starts == [start]
    assert subscription_of(spec) is None


def test_records_that_are_gone_are_passed_over_only_if_the_consumer_would_reset() -> None:
    assert dict(read({}).options)["failOnDataLoss"] == "true"
    assert dict(read(EARLIEST).options)["failOnDataLoss"] == "false"


def test_a_consumer_group_is_asked_for_its_offsets() -> None:
    for options in ((), STREAMING):
        found = subscription_of(read({"group.id": "g"}, options=options))
        assert found is not None
        assert (found.group, found.reset, found.commits) == ("g", "latest", False)
    assert subscription_of(read({"group.id": "g"}, start_read_time=5)) is None


@pytest.mark.parametrize(
    ("config", "more"),
    [({}, {"commit_offset_in_finalize": True}), ({"enable.auto.commit": "true"}, {})],
)
def test_offsets_are_committed_where_the_consumer_would(
    config: dict[str, str], more: dict[str, Any]
) -> None:
    found = subscription_of(read({"group.id": "g", **config}, **more))
    assert found is not None
    assert found.commits


def test_hints_change_nothing() -> None:
    hints: dict[str, Any] = {
        "consumer_polling_timeout": 9,
        "allow_duplicates": True,
        "dynamic_read_poll_interval_seconds": 3,
        "redistribute_num_keys": np.int32(3),
        "expansion_service": "localhost:1",
    }
    assert read({}, **hints) == read({})


@pytest.mark.parametrize("bounds", [{}, {"max_num_records": 5}, {"max_read_time": 5}])
def test_a_redistributed_read_has_a_reshuffle(bounds: dict[str, Any]) -> None:
    for redistribute in (False, True):
        whole = pipeline(STREAMING)
        config = {"bootstrap.servers": "h:1"}
        _ = whole | ReadFromKafka(config, ["t"], redistribute=redistribute, **bounds)
        steps = whole.to_runner_api().components.transforms.values()
        labels = [part.unique_name for part in steps if part.spec.urn == RESHUFFLE]
        assert any(label.endswith("/Redistribute") for label in labels) == redistribute


def test_the_rate_of_beams_unbounded_sources_is_the_limit_of_a_micro_batch() -> None:
    options = dict(read({}, options=[*STREAMING, "--max_batch_elements=500"]).options)
    assert options["maxOffsetsPerTrigger"] == "500"


@pytest.mark.parametrize(
    ("policy", "time", "idle", "lag"),
    [
        ("ProcessingTime", None, None, None),
        ("CreateTime", "sparkbeam_time", 2_000_000, 0),
        ("LogAppendTime", "sparkbeam_time", 0, 2_000_000),
    ],
)
def test_a_policy_chooses_timestamps_and_idle_partitions(
    policy: str, time: str | None, idle: int | None, lag: int | None
) -> None:
    spec = read({}, timestamp_policy=policy)
    assert (spec.timestamp_column, spec.idle, spec.idle_lag) == (time, idle, lag)
    assert spec.partition_columns == ("topic", "partition")


@pytest.mark.parametrize("bounds", [{}, {"max_num_records": 5}])
def test_pairs_and_rows_have_beams_types(bounds: dict[str, Any]) -> None:
    whole = pipeline(STREAMING)
    config = {"bootstrap.servers": "h:1"}
    pairs = whole | "Pairs" >> ReadFromKafka(
        config,
        ["t"],
        f"{SERIALIZATION}StringDeserializer",
        f"{SERIALIZATION}LongDeserializer",
        **bounds,
    )
    assert pairs.element_type == beam.typehints.Tuple[str | None, int | None]
    rows = whole | ReadFromKafka(config, ["t"], with_metadata=True, **bounds)
    assert [name for name, _ in named_fields_from_element_type(rows.element_type)] == [
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampTypeId",
        "timestampTypeName",
        "headers",
        "key",
        "value",
    ]


def test_metadata_includes_headers() -> None:
    assert dict(read({}, with_metadata=True).options)["includeHeaders"] == "true"


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        ({"max.poll.records": 500}, {"max.poll.records": "500"}),
        ({"max.poll.records": np.int32(5)}, {"max.poll.records": "5"}),
        ({"check.crcs": True}, {"check.crcs": "true"}),
        ({"check.crcs": np.False_}, {"check.crcs": "false"}),
        ({"sasl.login.refresh.window.factor": 0.5}, {"sasl.login.refresh.window.factor": "0.5"}),
        ({"bootstrap.servers": ["a:1", "b:2"]}, {"bootstrap.servers": "a:1,b:2"}),
        ({"bootstrap.servers": ("a:1",)}, {"bootstrap.servers": "a:1"}),
        ({"client.id": None}, {}),
        ({"ssl.truststore.location": PurePosixPath("/a")}, {"ssl.truststore.location": "/a"}),
        ({"isolation.level": Level.COMMITTED}, {"isolation.level": "read_committed"}),
        ({"schema.registry.url": "http://h"}, {"schema.registry.url": "http://h"}),
        ({"metric.reporters": "a.B", "my.own": "1"}, {"metric.reporters": "a.B", "my.own": "1"}),
    ],
)
def test_settings_have_the_types_of_kafkas_clients(
    config: dict[str, Any], kept: dict[str, str]
) -> None:
    expected = {"bootstrap.servers": "h:1", **kept}
    options = dict(read(config).options)
    assert {n[6:]: v for n, v in options.items() if n.startswith("kafka.")} == expected
    assert kafka_settings.settings("", MappingProxyType(config)) == kept
    written = dict(write(producer_config={"bootstrap.servers": "h:1", **config}).options)
    assert {n[6:]: v for n, v in written.items() if n.startswith("kafka.")} == expected
    managed = ManagedConfig("x", {"consumer_config_updates": config})
    assert kafka_settings.client_settings(managed, "consumer_config_updates") == kept


def later(monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
    """Gives Beam's transform more arguments than it has."""
    known = typing.get_type_hints(kafka.ReadFromKafkaSchema)
    fields = [*known.items(), *((name, type(value)) for name, value in more.items())]
    schema = typing.NamedTuple("later", fields)  # type: ignore[misc]
    monkeypatch.setattr(kafka, "ReadFromKafkaSchema", partial(typing.cast(Any, schema), **more))


def test_an_argument_of_a_later_beam_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later(monkeypatch, new_thing=3)
    with pytest.raises(ConfigurationError, match=r"ReadFromKafka\(new_thing=…\)"):
        read({})


def test_topics_may_be_given_as_a_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    later(monkeypatch, topic_pattern="clicks-.*")
    options = dict(read({}, topics=[]).options)
    assert options["subscribePattern"] == "clicks-.*"
    assert "subscribe" not in options
    with pytest.raises(ConfigurationError, match=r"group.id needs topics="):
        read({"group.id": "g"}, topics=[])
    with pytest.raises(ConfigurationError, match="max_num_records needs topics="):
        read({}, topics=[], max_num_records=5)


def test_the_configuration_of_the_producer_is_that_of_the_sink() -> None:
    spec = write(producer_config={"bootstrap.servers": "h:1", "acks": "1", "key.serializer": "a"})
    assert spec.format == "kafka"
    assert dict(spec.options) == {
        "kafka.bootstrap.servers": "h:1",
        "kafka.acks": "1",
        "topic": "t",
    }


def test_a_producer_in_transactions_is_that_of_librdkafka() -> None:
    config = {
        "bootstrap.servers": "h:1",
        "transactional.id": "x",
        "acks": "all",
        "max.request.size": "1000",
        "buffer.memory": "5",
        "sasl.jaas.config": SECRET,
    }
    found = producer_config(config)
    assert found.pop("sasl.password") == "geheim"
    del found["sasl.username"]
    assert found == {
        "bootstrap.servers": "h:1",
        "transactional.id": "x",
        "acks": "all",
        "message.max.bytes": "1000",
        "partitioner": "murmur2_random",
    }


@pytest.mark.parametrize("with_headers", [False, True])
def test_records_of_transactions_are_written_by_one_task(with_headers: bool) -> None:
    config = {"bootstrap.servers": "h:1", "transactional.id": "x", "sasl.jaas.config": SECRET}
    row = beam.Row(key=b"k", value=b"v")
    elements = [row] if with_headers else [(b"k", b"v")]
    spec = write(elements, producer_config=config, with_headers=with_headers)
    assert spec.in_one_task
    assert isinstance(pickle.loads(spec.writer), TransactionWriter)
    assert "geheim" not in repr(spec)


def test_the_expansion_service_of_a_write_changes_nothing() -> None:
    assert write(expansion_service="localhost:1") == write()


def test_a_row_with_headers_is_a_record_of_its_topic_and_partition() -> None:
    headers = [beam.Row(key="h", value=b"1")]
    row = beam.Row(key=b"k", value=None, headers=headers, topic="other", partition=3)
    assert _Row("t")(row) == {
        "key": b"k",
        "value": None,
        "headers": [{"key": "h", "value": b"1"}],
        "topic": "other",
        "partition": 3,
    }
    plain: dict[str, Any] = {
        "key": b"",
        "value": b"",
        "headers": [],
        "topic": "t",
        "partition": None,
    }
    assert _Row("t")(beam.Row(key=b"", value=b"", topic=None, timestamp=None)) == plain


def test_rows_with_headers_choose_their_topics() -> None:
    row = beam.Row(key=b"k", value=b"v")
    assert "topic" not in dict(write([row], with_headers=True).options)


def test_errors_of_records_name_the_step() -> None:
    whole = pipeline(STREAMING)
    longs = f"{SERIALIZATION}LongDeserializer"
    _ = whole | "It's" >> ReadFromKafka({"bootstrap.servers": "h:1"}, ["t"], longs)
    derived = dict(ReadSpec.unpack(payload(READ_URN, whole)).derived)
    assert r"Step \'It\'s\': LongDeserializer takes" in derived["key"]


def test_a_login_is_shown_nowhere() -> None:
    config = {"bootstrap.servers": "h:1", "sasl.jaas.config": SECRET, "group.id": "g"}
    for spec in (read(config), write(producer_config=config)):
        assert "geheim" not in repr(spec)
        assert "geheim" not in Redaction(spec.options)("the password is geheim, yes")
    assert "geheim" not in repr(subscription_of(read(config)))


def test_settings_that_kafka_does_not_know_are_passed_on_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = {"bootstrap.servers": "h:1", "my.partitioner.seed": "5", "sasl.my.login": "x"}
    for _ in range(2):
        found = checked_write({"producer_config": config, "topic": "t"})
    assert found["producer_config"] == config
    assert caplog.messages == [
        "producer_config: Kafka has no settings my.partitioner.seed. They are passed on, and have "
        "an effect only if a plug-in of its client reads them."
    ]

"""Wrong arguments of Kafka's transforms; the table beside this module has calls and errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apache_beam as beam
import misuse
import pytest
from apache_beam.io.kafka import ReadFromKafka, WriteToKafka
from misuse import without
from schema_registry import SchemaRegistry
from test_kafka_client import with_login
from test_kafka_values import form
from test_proto_rows import described
from test_schema_registry import SECOND, keys

from sparkbeam import SparkRunner
from sparkbeam.hooks.managed_config import ManagedConfig
from sparkbeam_kafka import registry_rows
from sparkbeam_kafka import rows as kafka_rows
from sparkbeam_kafka.client_config import client_config
from sparkbeam_kafka.registry import Registry
from sparkbeam_kafka.subscription import Subscription
from sparkbeam_kafka.values import format_of
from sparkbeam_kafka.write import _Row

SERVER = {"bootstrap.servers": "h:1"}
TRANSACTION = {"transactional.id": "x"}
CREATE, APPEND = ReadFromKafka.create_time_policy, ReadFromKafka.log_append_time
PASSWORD = 'org.apache.kafka.common.security.plain.PlainLoginModule required password="geheim";'
JSON = '{"type": "object", "properties": {"id": {"type": "integer"}}}'
PLACE = {"bootstrap_servers": "h:1", "topic": "t"}
REGISTRY = {
    "confluent_schema_registry_url": "http://127.0.0.1:1",
    "confluent_schema_registry_subject": "s",
}


def read(config: Any = (), topics: Any = ("t",), *options: str, **given: Any) -> Any:
    """Read a stream, unless there are other options."""
    pipeline = beam.Pipeline(SparkRunner(), argv=[*options] or ["--streaming"])
    return pipeline | "Read" >> ReadFromKafka({**SERVER, **dict(config)}, topics, **given)


def batch(config: Any = (), **given: Any) -> Any:
    return read(config, ["t"], "--runner=sparkbeam.SparkRunner", **given)


def write(element: Any, config: Any = (), topic: Any = "t", **given: Any) -> Any:
    rows = beam.Pipeline(SparkRunner()) | beam.Create([element])
    return rows | "Write" >> WriteToKafka({**SERVER, **dict(config)}, topic, **given)


def read_rows(**config: Any) -> Any:
    return kafka_rows.read("kafka", ManagedConfig("managed.Read(KAFKA)", PLACE | config))


def write_rows(row: Any, **config: Any) -> Any:
    transform = kafka_rows.write("kafka", ManagedConfig("managed.Write(KAFKA)", PLACE | config))
    return beam.Pipeline() | beam.Create([row]) | transform


@contextmanager
def registered(schema: Any = SECOND, **others: Any) -> Iterator[dict[str, Any]]:
    """Run a registry that has a schema; yield the keys of a configuration for it."""
    with SchemaRegistry() as server:
        if schema is not None:
            server.register("people-value", schema, **others)
        yield keys(server)


def parse(data: bytes) -> Any:
    """Make a row of a record of a registry."""
    with registered() as given:
        place = Registry(given["confluent_schema_registry_url"])
        return registry_rows.parser("here", place, "people-value")[1](data)


def deserializer(name: str) -> Any:
    return format_of("key_deserializer", name, "Deserializer", "Read bytes.")


@misuse.table(__file__)
def test_a_wrong_call_is_an_error(
    call: misuse.Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.desc").write_bytes(described().SerializeToString())
    Path("shop.proto").write_text('syntax = "proto3";')
    SparkRunner()  # Of which most programs make one before their transforms.
    misuse.check(call, globals())

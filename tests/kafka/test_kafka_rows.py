"""Kafka's records as rows: the system of managed transforms, and Beam YAML's own types."""

import subprocess
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import managed
from payloads import payload

from sparkbeam import SparkRunner
from sparkbeam.errors import ConfigurationError
from sparkbeam.plan.spark_io import READ_URN, WRITE_URN, ReadSpec, WriteSpec
from sparkbeam.replacements import kafka_rows
from sparkbeam.replacements.managed_config import ManagedConfig

yaml_transform = pytest.importorskip("apache_beam.yaml.yaml_transform")

PLACE = {"bootstrap_servers": "h:1", "topic": "t"}
JSON = '{"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}'


@pytest.fixture(autouse=True)
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """No expansion service is started."""

    def start(*args: Any, **named: Any) -> None:
        raise AssertionError(args)

    monkeypatch.setattr(subprocess, "Popen", start)


def built(*options: str) -> beam.Pipeline:
    return beam.Pipeline(runner=SparkRunner(), options=PipelineOptions(["--streaming", *options]))


def read(**config: Any) -> ReadSpec:
    pipeline = built()
    _ = pipeline | managed.Read("kafka", config={**PLACE, **config})
    return ReadSpec.unpack(payload(READ_URN, pipeline))


def test_the_configuration_is_that_of_the_consumer() -> None:
    spec = read(
        auto_offset_reset_config="earliest",
        consumer_config_updates={"client.id": "c"},
        redistribute_num_keys=3,
    )
    assert spec.subscription is None
    assert (
        dict(spec.options).items()
        >= {
            "kafka.bootstrap.servers": "h:1",
            "subscribe": "t",
            "startingOffsets": "earliest",
            "kafka.client.id": "c",
        }.items()
    )


def test_offsets_of_a_group_that_is_named_are_committed() -> None:
    subscription = read(consumer_config_updates={"group.id": "g"}).subscription
    assert subscription is not None
    assert subscription.commits


@pytest.mark.parametrize(
    ("format", "schema", "fields"),
    [
        ("RAW", None, {"payload": bytes}),
        ("string", None, {"payload": str}),
        ("JSON", JSON, None),
        (
            "AVRO",
            '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}',
            None,
        ),
    ],
)
def test_a_format_has_the_rows_of_its_schema(
    format: str, schema: str | None, fields: dict[str, Any] | None
) -> None:
    rows = built() | managed.Read("kafka", config={**PLACE, "format": format, "schema": schema})
    found = dict(rows.element_type.__annotations__)
    assert found == fields if fields else "id" in found


def test_rows_become_values() -> None:
    pipeline = built()
    rows = pipeline | beam.Create([beam.Row(id=1, name="a")])
    _ = rows | managed.Write("kafka", config={**PLACE, "format": "JSON"})
    assert dict(WriteSpec.unpack(payload(WRITE_URN, pipeline)).options)["topic"] == "t"


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"format": "XML"}, "format='XML' is not supported here"),
        ({"format": "PROTO", "schema": JSON}, "needs file_descriptor_path and message_name"),
        ({"format": "PROTO", "message_name": "a"}, "needs file_descriptor_path and message_name"),
        (
            {"format": "PROTO", "message_name": "a", "file_descriptor_path": "/nowhere"},
            "file_descriptor_path='/nowhere' cannot be read",
        ),
        ({"confluent_schema_registry_url": "http://r"}, "confluent_schema_registry_subject, the"),
        (
            {"confluent_schema_registry_url": "r:1", "confluent_schema_registry_subject": "s"},
            "must be a URL of http or https",
        ),
        (
            {
                "confluent_schema_registry_url": "http://127.0.0.1:1",
                "confluent_schema_registry_subject": "s",
            },
            "cannot be asked for the subject 's'",
        ),
        (
            {
                "confluent_schema_registry_url": "http://r",
                "confluent_schema_registry_subject": "s",
                "format": "RAW",
            },
            "the format AVRO or JSON",
        ),
        ({"format": "RAW", "message_name": "a"}, "message_name, which has no meaning here"),
        ({"format": "JSON"}, "the schema does not fit the format"),
        ({"format": "JSON", "schema": "["}, "'schema' must be a dictionary"),
        ({"format": "RAW", "schema": JSON}, "RAW format does not take a schema"),
        ({"topics": ["a"]}, "topics, which has no meaning here"),
        ({"topic": None}, "needs 'topic'"),
        ({"max_read_time_seconds": "5"}, "must be a whole number"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_the_key(
    config: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        kafka_rows.read("kafka", ManagedConfig("managed.Read(KAFKA)", {**PLACE, **config}))
    assert told in str(refused.value)
    assert str(refused.value).startswith("managed.Read(KAFKA): ")


PIPELINE = f"""
type: chain
transforms:
  - type: ReadFromKafka
    config:
      topic: t
      bootstrap_servers: "h:1"
      format: JSON
      schema: |
        {JSON}
      consumer_config: {{group.id: g}}
      auto_offset_reset_config: earliest
  - type: MapToFields
    config: {{language: python, fields: {{name: name}}}}
  - type: WriteToKafka
    config:
      topic: u
      bootstrap_servers: "h:1"
      format: JSON
      producer_config_updates: {{acks: all}}
"""


def test_yaml_has_the_same_under_its_own_names() -> None:
    pipeline = built()
    _ = pipeline | yaml_transform.YamlTransform(PIPELINE)
    spec = ReadSpec.unpack(payload(READ_URN, pipeline))
    assert spec.subscription is not None
    assert dict(spec.options)["subscribe"] == "t"
    written = dict(WriteSpec.unpack(payload(WRITE_URN, pipeline)).options)
    assert (written["topic"], written["kafka.acks"]) == ("u", "all")


def test_records_that_cannot_be_parsed_are_an_output_of_yaml() -> None:
    spec = PIPELINE.replace("type: chain", "type: composite").split("  - type: MapToFields")[0]
    spec = spec.replace(
        "auto_offset_reset_config: earliest",
        "auto_offset_reset_config: earliest\n      error_handling: {output: bad}",
    )
    spec += "output: {good: ReadFromKafka, bad: ReadFromKafka.bad}\n"
    outputs = built() | yaml_transform.YamlTransform(spec)
    assert set(outputs) == {"good", "bad"}

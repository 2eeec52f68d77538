"""Kafka's records as rows: the system of managed transforms, and Beam YAML's own types."""

import io
import pickle
import subprocess
from ast import literal_eval
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import apache_beam as beam
import fastavro
import pytest
import test_proto_rows
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import managed
from apache_beam.typehints import Optional, Tuple
from apache_beam.utils.timestamp import Timestamp
from in_process import StreamingRunner
from in_process_batch import BatchRunner
from kafka_options import subscription_of
from payloads import payload

from sparkbeam import SparkRunner
from sparkbeam.errors import PipelineFailed
from sparkbeam.hooks.managed_config import ManagedConfig
from sparkbeam.plan.spark_io import READ_URN, WRITE_URN, ReadSpec, WriteSpec
from sparkbeam_kafka import rows as kafka_rows

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
    assert subscription_of(spec) is None
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
    subscription = subscription_of(read(consumer_config_updates={"group.id": "g"}))
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
    assert subscription_of(spec) is not None
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


DEEP = {
    "type": "object",
    "properties": {
        "i": {"type": "integer"},
        "s": {"type": "string"},
        "n": {"type": "number"},
        "u": {"type": "array", "items": {"type": ["integer", "null"]}},
        "a": {"type": "array", "items": {"type": "integer"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "o": {
            "type": "object",
            "properties": {"i": {"type": "integer"}, "s": {"type": "string"}},
            "required": ["i"],
        },
    },
    "required": ["i"],
}
BIG = b"9223372036854775808"
POISON = {
    b"": "JSONDecodeError",
    b"\xff": "UnicodeDecodeError",
    b"null": "ValidationError",
    b"{}": "'i' is a required property",
    b'{"i": null}': "ValidationError",
    b'{"i": NaN}': "ValidationError",
    b'{"i": 1.5}': "ValidationError",
    b'{"i": 1e300}': "field 'i' of type int64 cannot hold 1e+300",
    b'{"i": ' + BIG + b"}": "field 'i' of type int64 cannot hold 9223372036854775808",
    b'{"i": 1, "i": ' + BIG + b"}": "field 'i' of type int64",
    b'{"i": -1' + BIG + b"}": "field 'i' of type int64",
    b'{"i": 1, "s": "\\ud800"}': "field 's' of type string or null cannot hold",
    b'{"i": 1, "n": ' + b"9" * 400 + b"}": "field 'n' of type double or null cannot hold",
    b'{"i": 1, "n": ' + b"9" * 5000 + b"}": "Exceeds the limit",
    b'{"i": 1, "a": [1, ' + BIG + b"]}": "field 'a[1]' of type int64",
    b'{"i": 1, "u": [null, ' + BIG + b"]}": "field 'u[1]' of type int64 or null",
    b'{"i": 1, "a": [null]}': "ValidationError",
    b'{"i": 1, "m": {"x": ' + BIG + b"}}": "m['x']",
    b'{"i": 1, "m": {"\\udfff": 1}}': "field 'm, a key' of type string cannot hold",
    b'{"i": 1, "o": {}}': "'i' is a required property",
    b'{"i": 1, "o": {"i": ' + BIG + b"}}": "field 'o.i' of type int64",
    b'{"i": 1, "o": {"i": 1, "s": "\\ud800"}}': "field 'o.s' of type string or null",
    b'{"i": 1, "o": ' + b"[" * 100_000 + b"}": "RecursionError",
}
"""Values of records of JSON, with a part of the error."""


def in_avro(kind: Any, value: Any) -> bytes:
    found = io.BytesIO()
    fastavro.schemaless_writer(found, fastavro.parse_schema(of_avro(kind)), {"i": value})
    return found.getvalue()


def of_avro(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": "i", "type": kind}]}


FORMATS: dict[str, tuple[dict[str, Any], list[bytes], dict[Any, str]]] = {
    "JSON": (
        {"format": "JSON", "schema": DEEP},
        [
            b'{"i": 1.0, "u": [null, 1]}',
            b'{"i": 9223372036854775807, "n": NaN, "s": "x"}',
            b'{"i": 1, "i": 2}',
        ],
        {None: "NoneType", **POISON},
    ),
    "RAW": (
        {"format": "RAW"},
        [b"", b"\xff"],
        {None: "field 'payload' of type bytes cannot hold None"},
    ),
    "STRING": (
        {"format": "STRING"},
        [b"", b"a"],
        {None: "NoneType", b"\xff": "UnicodeDecodeError"},
    ),
    "AVRO": (
        {"format": "AVRO", "schema": of_avro("int")},
        [in_avro("int", 2**31 - 1), in_avro("long", -(2**31))],
        {
            None: "EOFError",
            b"": "EOFError",
            in_avro("long", 2**31): "field 'i' of type int32 cannot hold 2147483648",
            in_avro("long", 2**62): "field 'i' of type int32",
        },
    ),
    "decimals of AVRO": (
        {
            "format": "AVRO",
            "schema": of_avro(
                {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
            ),
        },
        [in_avro("bytes", (-99999).to_bytes(9, "big", signed=True))],
        {
            in_avro("bytes", (100000).to_bytes(3, "big")): "more than the 5 digits of its type",
            in_avro("bytes", b"\x7f" * 3000): "more than the 5 digits of its type",
        },
    ),
    "PROTO": (
        {"format": "PROTO", "message_name": "shop.Order"},
        [b"", b"\x08\x07", b"\x40" + b"\xff" * 8 + b"\x7f"],
        {
            None: "NoneType",
            b"\xff": "DecodeError",
            b"\x40" + b"\xff" * 9 + b"\x01": "18446744073709551615",
            b"\x22\x03\x0a\x01\xff": "DecodeError",
        },
    ),
}
"""A configuration, records that are rows, and poison with a part of the error, by format."""


MOMENT = datetime(2020, 1, 2, 3, 4, 5, 6000, UTC)
INSTANT = Timestamp.from_utc_datetime(MOMENT)
MILLIS, DECIMAL = "timestamp-millis", {"logicalType": "decimal"}
OF_AVRO: list[Any] = [
    ({"type": "long", "logicalType": "timestamp-millis"}, MOMENT, INSTANT),
    ({"type": "long", "logicalType": "timestamp-micros"}, MOMENT, INSTANT),
    (["null", {"type": "long", "logicalType": "timestamp-millis"}], None, None),
    ({"type": "array", "items": {"type": "long", "logicalType": MILLIS}}, [MOMENT], [INSTANT]),
    ({"type": "bytes", "precision": 5, "scale": 2, **DECIMAL}, Decimal("1.50"), Decimal("1.50")),
    (
        {"type": "fixed", "name": "d", "size": 4, "precision": 5, **DECIMAL},
        Decimal(-7),
        Decimal(-7),
    ),
    ({"type": "int", "logicalType": "date"}, date(1970, 1, 3), 2),
    ({"type": "int", "logicalType": "time-millis"}, time(0, 0, 1), 1000),
    ({"type": "string", "logicalType": "uuid"}, str(UUID(int=5)), str(UUID(int=5))),
    ({"type": "fixed", "name": "f", "size": 2}, b"\xff\0", b"\xff\0"),
    ({"type": "enum", "name": "e", "symbols": ["A"]}, "A", "A"),
    (["null", {"type": "array", "items": "long"}], None, None),
    (["null", {"type": "map", "values": "string"}], None, None),
    (["null", {"type": "record", "name": "n", "fields": []}], None, None),
    ({"type": "map", "values": ["null", "long"]}, {"a": None, "b": 5}, {"a": None, "b": 5}),
]
"""Types of Avro, values, and what is in the rows."""


@pytest.mark.parametrize(("kind", "value", "expected"), OF_AVRO)
def test_values_of_avro_pass_through_a_pipeline(
    kind: Any, value: Any, expected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "found"
    config = {"format": "AVRO", "schema": of_avro(kind)}

    def note(row: Any) -> None:
        path.write_bytes(pickle.dumps(row.i))

    parsed(monkeypatch, [in_avro(kind, value)], note, config, BatchRunner)
    assert pickle.loads(path.read_bytes()) == expected


class Given(beam.PTransform):
    """Records in the place of Kafka's."""

    def __init__(self, values: list[bytes | None]) -> None:
        super().__init__()
        self._values = values

    def expand(self, pbegin: Any) -> Any:
        pairs = pbegin | beam.Create([(None, value) for value in self._values])
        return pairs | beam.Map(lambda pair: pair).with_output_types(
            Tuple[Optional[bytes], Optional[bytes]]
        )


def parsed(
    monkeypatch: pytest.MonkeyPatch,
    values: list[bytes | None],
    note: Callable[[Any], Any],
    config: dict[str, Any],
    runner: Any,
) -> None:
    """Run a pipeline that reads records and notes their rows, and the errors if there are any."""
    monkeypatch.setattr(kafka_rows, "ReadFromKafka", lambda *_, **__: Given(values))
    given = ManagedConfig("managed.Read(KAFKA)", PLACE | config)
    streaming = ["--streaming"] if runner is StreamingRunner else []
    with beam.Pipeline(runner(), options=PipelineOptions(streaming)) as pipeline:
        found = pipeline | "Read it" >> kafka_rows.read("kafka", given)
        good = found["good"] if "error_handling" in config else found
        _ = good | beam.Reshuffle() | "Rows" >> beam.Map(note)
        if "error_handling" in config:
            bad = found["bad"] | "Again" >> beam.Reshuffle()
            _ = bad | beam.Map(lambda row: [row.element, row.msg]) | "Errors" >> beam.Map(note)


@pytest.fixture
def descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of the messages of :data:`FORMATS`."""
    path = tmp_path / "shop.desc"
    path.write_bytes(test_proto_rows.described().SerializeToString())
    monkeypatch.setitem(FORMATS["PROTO"][0], "file_descriptor_path", str(path))


@pytest.mark.usefixtures("descriptors")
@pytest.mark.parametrize("runner", [BatchRunner, StreamingRunner])
@pytest.mark.parametrize("format", FORMATS)
def test_each_record_is_a_row_or_a_dead_letter(
    format: str, runner: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, rows, poison = FORMATS[format]
    path = tmp_path / "found"

    def note(row: Any) -> None:
        with path.open("a") as lines:
            lines.write(f"{row!r}\n" if isinstance(row, list) else "\n")

    config = {**config, "error_handling": {"output": "bad"}}
    parsed(monkeypatch, [*rows, *poison], note, config, runner)
    lines = path.read_text().splitlines()
    told = dict(literal_eval(line) for line in lines if line)
    assert told.keys() == poison.keys()
    assert lines.count("") == len(rows)
    for value, part in poison.items():
        assert part.replace("'", "") in told[value].replace("'", "").replace("\\", "")


@pytest.mark.usefixtures("descriptors")
@pytest.mark.parametrize(
    ("format", "value"),
    [
        (format, value)
        for format, (_, _, poison) in FORMATS.items()
        for value in [*poison][:2] + [*poison][-3:-1]
    ],
)
def test_poison_without_dead_letters_is_an_error_that_names_step_topic_field_and_remedy(
    format: str, value: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PipelineFailed) as failed:
        parsed(monkeypatch, [value], repr, FORMATS[format][0], BatchRunner)
    told = str(failed.value).splitlines()[0]
    assert told.startswith("Step 'Read it/Parse' failed: ")
    assert "A record of topic 't' cannot be read as a row: " in told
    assert "set error_handling" in told

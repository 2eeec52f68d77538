"""Records whose Avro schemas are in a schema registry."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from in_process import StreamingRunner
from in_process_batch import BatchRunner
from schema_registry import SchemaRegistry
from test_kafka_rows import parsed

from sparkbeam import SparkRunner
from sparkbeam.errors import ConfigurationError, PipelineFailed
from sparkbeam.hooks.managed_config import ManagedConfig
from sparkbeam_kafka import registry_rows
from sparkbeam_kafka import rows as kafka_rows
from sparkbeam_kafka import upstream as yaml_payloads
from sparkbeam_kafka.registry import Registry, RegistryError, registry

FIRST = {
    "type": "record",
    "name": "Person",
    "fields": [{"name": "id", "type": "long"}, {"name": "gone", "type": "string"}],
}
SECOND = {
    "type": "record",
    "name": "Person",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string", "default": "nobody"},
        {"name": "sizes", "type": {"type": "array", "items": "double"}, "default": []},
    ],
}


@pytest.fixture
def server() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as server:
        yield server


def keys(server: SchemaRegistry) -> dict[str, Any]:
    subject = {"confluent_schema_registry_subject": "people-value"}
    return {"confluent_schema_registry_url": server.url, **subject}


def config(server: SchemaRegistry, **others: Any) -> ManagedConfig:
    given = {"bootstrap_servers": "h:1", "topic": "people", **keys(server)}
    return ManagedConfig("managed.Read(KAFKA)", given | others)


@pytest.mark.parametrize("runner", [FnApiRunner, BatchRunner])
def test_records_become_rows_of_the_latest_schema(server: SchemaRegistry, runner: Any) -> None:
    first = server.register("people-value", FIRST)
    server.register("others-value", {**FIRST, "name": "Other"})
    second = server.register("people-value", SECOND)
    values = [
        server.encoded(first, {"id": 1, "gone": "x"}),
        server.encoded(second, {"id": 2, "name": "ada", "sizes": [0.5]}),
    ]
    schema, parse = registry_rows.parser("here", Registry(server.url), "people-value")
    with beam.Pipeline(runner()) as pipeline:
        rows = pipeline | beam.Create(values) | beam.Map(parse)
        rows.element_type = yaml_payloads.row_type(schema)
        found = rows | beam.Map(lambda row: (row.id, row.name, list(row.sizes)))
        assert_that(found, equal_to([(1, "nobody", []), (2, "ada", [0.5])]))


PERSON = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
}


def test_json_behind_the_id_of_its_schema_becomes_rows(server: SchemaRegistry) -> None:
    number = server.register("people-value", PERSON, schemaType="JSON")
    schema, parse = registry_rows.parser("here", Registry(server.url), "people-value", "JSON")
    assert [field.name for field in schema.fields] == ["id", "name"]
    row = parse(b"\0" + number.to_bytes(4, "big") + b'{"id": 1, "name": "ada"}')
    assert (row.id, row.name) == (1, "ada")
    with pytest.raises(ValueError, match="Confluent's serializers"):
        parse(b'{"id": 1, "name": "ada"}')


def test_a_managed_read_of_json_has_the_rows_of_the_subject(server: SchemaRegistry) -> None:
    server.register("people-value", PERSON, schemaType="JSON")
    pipeline = beam.Pipeline(SparkRunner(), argv=["--streaming"])
    rows = pipeline | kafka_rows.read("kafka", config(server, format="JSON"))
    assert list(rows.element_type.__annotations__) == ["id", "name"]


@pytest.mark.parametrize("runner", [FnApiRunner, BatchRunner])
def test_rows_become_records_of_the_latest_schema(server: SchemaRegistry, runner: Any) -> None:
    server.register("people-value", FIRST)
    number = server.register("people-value", SECOND)
    place = Registry(server.url)
    with beam.Pipeline(runner()) as pipeline:
        rows = (
            pipeline
            | beam.Create([(1, "ada"), (2, "b")])
            | beam.MapTuple(lambda id, name: beam.Row(name=str(name), id=int(id)))
        )
        encode = registry_rows.formatter("here", place, "people-value", rows.element_type)
        records = [{"id": 1, "name": "ada", "sizes": []}, {"id": 2, "name": "b", "sizes": []}]
        expected = [server.encoded(number, record) for record in records]
        assert_that(rows | beam.Map(encode), equal_to(expected))


def test_a_schema_is_asked_for_once(server: SchemaRegistry) -> None:
    number = server.register("people-value", FIRST)
    _, parse = registry_rows.parser("here", Registry(server.url), "people-value")
    for _ in range(3):
        parse(server.encoded(number, {"id": 1, "gone": ""}))
    assert server.requests == ["/subjects/people-value/versions/latest", "/schemas/ids/1"]


def test_a_managed_read_has_the_rows_of_the_subject(server: SchemaRegistry) -> None:
    server.register("people-value", SECOND)
    pipeline = beam.Pipeline(SparkRunner(), argv=["--streaming"])
    rows = pipeline | kafka_rows.read("kafka", config(server))
    assert list(rows.element_type.__annotations__) == ["id", "name", "sizes"]


@pytest.mark.parametrize("place", ["basic.auth.user.info", "url", None])
def test_a_registry_may_ask_for_a_login(place: str | None) -> None:
    with SchemaRegistry("reader:pass%word") as server:
        server.register("people-value", SECOND)
        consumer = {place: "reader:pass%word", "basic.auth.credentials.source": "USER_INFO"}
        given: dict[str, Any] = {"max_read_time_seconds": 1}
        if place == "url":
            url = server.url.replace("http://", "http://reader:pass%25word@")
            given["confluent_schema_registry_url"] = url
        elif place is not None:
            given["consumer_config_updates"] = consumer
        if place is not None:
            kafka_rows.read("kafka", config(server, **given))
            return
        with pytest.raises(ConfigurationError, match="answered with HTTP status 401"):
            kafka_rows.read("kafka", config(server, **given))


@pytest.mark.parametrize("runner", [BatchRunner, StreamingRunner])
@pytest.mark.parametrize(("format", "schema"), [("AVRO", FIRST), ("JSON", PERSON)])
def test_each_record_is_a_row_or_a_dead_letter(
    server: SchemaRegistry, format: str, schema: Any, runner: Any, tmp_path: Path
) -> None:
    number = server.register("people-value", schema, schemaType=format)
    header = b"\0" + number.to_bytes(4, "big")
    if format == "AVRO":
        good = server.encoded(number, {"id": 2**63 - 1, "gone": "\u00e4"})
        cut = [good[:-1], header, b"\0\0\0\0\x4dx"]
    else:
        good = header + b'{"id": 9223372036854775807, "name": "a"}'
        cut = [header + b'{"id": 9223372036854775808}', header + b'{"name": "\\ud800"}', header]
    poison = [None, b"", b"\1" + good[1:], *cut]

    def note(found: Any) -> None:
        element = repr(found[0]) if isinstance(found, list) else f"row {found.id}"
        with (tmp_path / "found").open("a") as lines:
            lines.write(f"{element}\n")

    given = {"format": format, "error_handling": {"output": "bad"}, **keys(server)}
    with pytest.MonkeyPatch.context() as patch:
        parsed(patch, [good, *poison], note, given, runner)
    found = (tmp_path / "found").read_text().splitlines()
    assert sorted(found) == sorted([f"row {2**63 - 1}", *map(repr, poison)])


@pytest.mark.parametrize("errors", [{}, {"error_handling": {"output": "bad"}}])
@pytest.mark.parametrize("status", [503, 0])
def test_no_record_is_a_dead_letter_because_the_registry_is_away(
    monkeypatch: pytest.MonkeyPatch, errors: dict[str, Any], status: int
) -> None:
    with SchemaRegistry() as server:
        server.register("people-value", FIRST)
        value = server.encoded(1, {"id": 1, "gone": ""})
        given = {"format": "AVRO", **keys(server)}
        server.away_behind(1, status)
        with pytest.raises(PipelineFailed) as failed:
            parsed(monkeypatch, [value], repr, given | errors, BatchRunner)
    told = str(failed.value)
    assert f"The schema registry at {server.url} " in told
    assert "cannot be read as a row" not in told


def test_a_password_is_in_no_text() -> None:
    found = registry("here", "http://reader:secret@h:1/path/", {})
    assert "secret" not in repr(found)
    assert found.url == "http://h:1/path"
    with pytest.raises(RegistryError) as refused:
        registry("here", "http://reader:secret@127.0.0.1:1", {}).latest("s")
    assert "secret" not in str(refused.value)

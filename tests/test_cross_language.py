"""All of Beam's transforms of other languages: none is expanded, downloaded or connected to."""

import inspect
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam.io.debezium import DriverClassName
from apache_beam.transforms import external, managed
from apache_beam.transforms import external_transform_provider as providers
from apache_beam.typehints.decorators import TypeCheckError

from sparkbeam import SparkRunner, UnsupportedTransform
from sparkbeam.cli.replaced_runners import on_our_runner
from sparkbeam.common.entry_points import REPLACEMENTS, registered

SERVICES = ("ExpansionService", "ExternalTransform", "external_transform_provider")
BASES = (external.ExternalTransform, providers.ExternalTransform)
GUESSED = {
    "connector_class": DriverClassName.MYSQL,
    "start": 0,
    "stop": 5,
    "password": "p",
    "schema": "a:INTEGER",
    "sql": "SELECT 1",
    "use_cross_language": True,
    "user_data_mapper": str,
    "username": "u",
    "write_disposition": "APPEND",
    "create_disposition": "CREATE_IF_NEEDED",
    "config": {"table": "t"},
    "connection_properties": [],
    "topics": ["t"],
    "consumer_config": {"bootstrap.servers": "h:9"},
    "producer_config": {"bootstrap.servers": "h:9"},
    "query": "SELECT 1",
    "row_type": NamedTuple("RowOfSpanner", [("id", int)]),
    "max_batch_size_bytes": 5,
}
"""Arguments by their names; all others that a transform needs are texts."""

OF_CLIENT = ("StorageWriteToBigQuery", "WriteToBigQuery")
"""Transforms that need the client of their system first."""


class ReachedError(BaseException):
    """Something reaches for the network or another process."""


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without network and processes."""

    def reached(*given: Any, **named: Any) -> None:
        raise ReachedError(given, named)

    for owner, name in (
        (socket.socket, "connect"),
        (socket, "create_connection"),
        (urllib.request, "urlopen"),
        (subprocess, "Popen"),
        (external, "ExpansionAndArtifactRetrievalStub"),
        (external.subprocess_server.JavaJarServer, "local_jar"),
    ):
        monkeypatch.setattr(owner, name, reached)


def modules() -> Iterator[Any]:
    """Those of Beam that name expansion services."""
    root = Path(beam.__file__).parent
    for file in sorted(root.rglob("*.py")):
        name = ".".join(file.relative_to(root.parent).with_suffix("").parts)
        text = file.read_text()
        if "_test" in name or "examples" in name or not any(each in text for each in SERVICES):
            continue
        yield import_module(name)


def transforms() -> list[type]:
    """The transforms of these modules that get or make an expansion service."""
    found = {
        kind
        for module in modules()
        for kind in vars(module).values()
        if inspect.isclass(kind)
        and kind.__module__ == module.__name__
        and issubclass(kind, beam.PTransform)
        and kind not in (*BASES, external.JavaExternalTransform)
        and (issubclass(kind, BASES) or "xpansion_service" in inspect.getsource(kind))
    }
    return sorted(found, key=str)


def applied(pipeline: beam.Pipeline, kind: Any) -> None:
    """Construct a transform with all arguments that it needs, and apply it."""
    named = {
        name: GUESSED.get(name, "x")
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and (parameter.default is parameter.empty or name in GUESSED)
    }
    transform = kind(**named)
    for number, elements in enumerate(([], [b"a"], [{"a": 1}], [beam.Row(a=1)])):
        with suppress(TypeError, ValueError, AttributeError, AssertionError, TypeCheckError):
            values = (
                pipeline | f"Create {number}" >> beam.Create(elements) if elements else pipeline
            )
            _ = values | f"Step {number}" >> transform


REFUSED = [
    kind
    for kind in transforms()
    if f"{kind.__module__}.{kind.__qualname__}" not in registered(REPLACEMENTS)
    and kind.__name__ not in OF_CLIENT
]


def test_beam_has_many_of_them() -> None:
    names = {kind.__name__ for kind in REFUSED}
    assert len(names) > 25
    assert {"ReadFromBigtable", "WriteToBigTable", "MongodbRead", "ReadFromSnowflake"} <= names


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_each_is_refused_in_a_paragraph(kind: type, caplog: pytest.LogCaptureFixture) -> None:
    pipeline = beam.Pipeline(runner=SparkRunner())
    with pytest.raises(UnsupportedTransform) as caught:
        applied(pipeline, kind)
    text = str(caught.value)
    assert kind.__name__ in text
    assert len(text) < 600
    assert "\n" not in text
    assert "Use " in text or "Read with" in text or "Write with" in text or "Leave " in text
    assert caplog.text == ""


@pytest.mark.parametrize(
    "service",
    [
        "localhost:8097",
        external.JavaJarExpansionService("service.jar"),
        external.BeamJarExpansionService(":sdks:java:io:expansion-service:shadowJar"),
    ],
)
@pytest.mark.parametrize(
    "make",
    [
        lambda service: external.ExternalTransform("a:read", b"", service),
        lambda service: external.SchemaAwareExternalTransform("a:read", service),
        lambda service: external.SchemaAwareExternalTransform("a:read", service, True),
        lambda service: external.SchemaAwareExternalTransform.discover_config(service, "a"),
        lambda service: external.JavaExternalTransform("org.example.Read", service).of("a"),
        lambda service: providers.ExternalTransformProvider(service).get("Read"),
        lambda service: providers.ExternalTransformProvider([service]).get_all(),
        lambda service: managed.Read(managed.BIGQUERY, config={}, expansion_service=service),
        lambda service: managed.Write(managed.BIGQUERY, config={}, expansion_service=service),
    ],
)
def test_a_service_that_a_program_names_is_neither_started_nor_called(
    service: Any, make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = beam.Pipeline(runner=SparkRunner())
    with pytest.raises(UnsupportedTransform, match="is a cross-language transform"):
        _ = pipeline | "Create" >> beam.Create([beam.Row(a=1)]) | make(service)
    with pytest.raises(UnsupportedTransform, match="is a cross-language transform"):
        _ = pipeline | "Read" >> make(service)
    assert caplog.text == ""


def test_one_that_is_constructed_before_its_pipeline_is_refused_by_the_commands() -> None:
    from apache_beam.io.gcp.bigtableio import ReadFromBigtable

    with on_our_runner("program", is_told=False), pytest.raises(UnsupportedTransform) as caught:
        ReadFromBigtable("p", "i", "t")
    assert caught.value.label == "ReadFromBigtable"
    service = "localhost:8097"
    with on_our_runner("program", is_told=False), pytest.raises(UnsupportedTransform) as caught:
        external.SchemaAwareExternalTransform.discover(service)
    assert caught.value.label == "SchemaAwareExternalTransform.discover"


def test_other_runners_reach_their_services() -> None:
    from apache_beam.io.gcp.bigtableio import ReadFromBigtable

    SparkRunner()
    pipeline = beam.Pipeline(runner="DirectRunner")
    with pytest.raises(ReachedError):
        _ = pipeline | ReadFromBigtable("p", "i", "t")

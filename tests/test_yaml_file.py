"""``sparkbeam yaml``, and the types of Beam YAML's own catalogue."""

import importlib
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import apache_beam as beam
import grpc
import misuse
import pytest
from apache_beam.utils import subprocess_server
from click.testing import CliRunner, Result
from in_process_batch import BatchRunner

from sparkbeam import ConfigurationError
from sparkbeam.cli import main_program, programs
from sparkbeam.cli.commands import main
from sparkbeam.replaced.yaml.providers import native
from sparkbeam.upstream.yaml_scopes import runs_elsewhere

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))

yaml_provider = pytest.importorskip("apache_beam.yaml.yaml_provider")
yaml_transform = pytest.importorskip("apache_beam.yaml.yaml_transform")

import yaml_types  # noqa: E402

SECRET = "Hunt3r-Sec7et"
PIPELINE = """
pipeline:
  type: chain
  transforms:
    - type: Create
      config: {elements: [{word: a}, {word: b}, {word: a}]}
    - type: Combine
      config: {language: python, group_by: word, combine: {count: {value: word, fn: count}}}
    - type: MapToFields
      config: {language: python, fields: {line: "word + str(count) + '{{ end | default() }}'"}}
    - type: WriteToText
      config: {path: out}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sparkbeam.runner.spark_runner.SparkRunner", BatchRunner)
    with main_program.restored():
        yield tmp_path
    programs.FOR_GOOD.close()


def run(text: str, *options: str) -> Result:
    Path("pipeline.yaml").write_text(text)
    return CliRunner().invoke(main, ["yaml", "pipeline.yaml", *options])


def written() -> list[str]:
    return sorted(line for file in Path().glob("out*") for line in file.read_text().split())


def test_a_pipeline_runs_with_the_variables_of_its_template() -> None:
    result = run(PIPELINE, '--jinja_variables={"end": "!"}')
    assert result.exit_code == 0, result.output
    assert written() == ["a2!", "b1!"]


def test_the_tests_of_a_file_run() -> None:
    tests = """
tests:
  - name: Counts
    mock_outputs: [{name: Create, elements: [{word: x}]}]
    expected_inputs: [{name: WriteToText, elements: [{line: WRONG}]}]
"""
    right = run(PIPELINE + tests.replace("WRONG", "x1"), "--tests")
    assert right.exit_code == 0, right.output
    assert run(PIPELINE + tests, "--tests").exit_code == 1
    assert written() == []


def circle(*names: str) -> str:
    """Return a pipeline of transforms that read each other."""
    inputs = zip(names, [*names[1:], names[0]], strict=True)
    config = "config: {language: python, fields: {x: x}}"
    lines = (f"  - {{type: MapToFields, name: {n}, input: {i}, {config}}}" for n, i in inputs)
    return "\n".join(["pipeline:", "  transforms:", *lines])


def wrong(text: str) -> NoReturn:
    """Run a pipeline that is wrong; its error is short, and has no secret."""
    result = run(text)
    assert result.exit_code in (1, 2)
    assert "Traceback" not in result.output
    assert SECRET not in result.output
    usage, _, told = " ".join(result.stderr.split()).partition("Error: ")
    assert not usage or usage.startswith("Usage: "), result.stderr
    raise misuse.Error(told)


@pytest.mark.usefixtures("alone")
@misuse.table(__file__)
def test_a_wrong_pipeline_is_a_short_error_with_the_place(call: misuse.Call) -> None:
    misuse.check(call, globals())


def test_a_failing_function_is_a_short_error_with_its_step() -> None:
    result = run(PIPELINE.replace("word + str(count)", "1 // 0"))
    assert result.exit_code == 1
    assert "MapToFields" in result.stderr
    assert "ZeroDivisionError" in result.stderr


@pytest.mark.parametrize(
    "step",
    [
        "{type: WriteToSpanner, config: {table_id: a}}",
        "{type: MapToFields, config: {language: java, fields: {a: {expression: a}}}}",
        "{type: WriteToKafka, config: {topic: a, bootstrap_server: b}}",
        "{type: WriteToText, config: {pth: a}}",
    ],
)
def test_beams_own_command_refuses_the_same_for_the_same_reason(step: str) -> None:
    create = "{type: Create, config: {elements: [{a: 1}]}}"
    result = run(f"pipeline: {{type: chain, transforms: [{create}, {step}]}}")
    beams = importlib.import_module("apache_beam.yaml.main")
    own = ["--yaml_pipeline_file=pipeline.yaml", "--runner=in_process_batch.BatchRunner"]
    with pytest.raises(ValueError, match="line 1") as caught:
        beams.run(own)
    (told,) = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert told == f"Error: {' '.join(str(caught.value).split())}"


def test_without_its_packages_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apache_beam.yaml.main", None)
    monkeypatch.delattr("apache_beam.yaml.main", raising=False)
    result = run(PIPELINE)
    assert result.exit_code == 1
    assert "pip install 'sparkbeam[yaml]'" in result.stderr


CATALOGUE = yaml_provider.standard_providers()
ELSEWHERE = [kind for kind, found in CATALOGUE.items() if all(map(runs_elsewhere, found))]
PLACES = {
    kind: {runs_elsewhere(native(kind, provider)) for provider in found}
    for kind, found in CATALOGUE.items()
}
"""Places of the providers of a type, with ours in place of those of Java: elsewhere or not."""

REFUSED = [kind for kind, places in PLACES.items() if places == {True}]
BOTH = [kind for kind, places in PLACES.items() if places == {True, False}]


def test_of_the_catalogue_only_systems_without_a_counterpart_need_java() -> None:
    systems = {"BigQuery", "BigTable", "Datadog", "Debezium", "Firestore", "IbmMQ", "IcebergCDC"}
    systems |= {"Jms", "Kinesis", "Snowflake", "Spanner", "SpannerCDC"}
    others = {"IcebergAddFiles", "MapToFields-java", "Filter-java"}
    names = {kind.removeprefix("ReadFrom").removeprefix("WriteTo") for kind in REFUSED}
    assert names <= systems | others


def test_the_page_has_the_types_of_the_catalogue() -> None:
    text = yaml_types.PAGE.read_text()
    if f"catalogue of Beam {'.'.join(beam.__version__.split('.')[:2])};" not in text:
        pytest.skip(f"the page has not the catalogue of Beam {beam.__version__}")
    assert text == yaml_types.renewed(text), "run: python docs/yaml_types.py"


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails a test that starts a process, opens a URL or a channel, or finds Java."""

    def start(*args: Any, **named: Any) -> None:
        raise AssertionError(args)

    for owner, name in (
        (subprocess, "Popen"),
        (socket.socket, "connect"),
        (urllib.request, "urlopen"),
        (subprocess_server.JavaHelper, "get_java"),
        (grpc, "insecure_channel"),
    ):
        monkeypatch.setattr(owner, name, start)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("kind", ELSEWHERE)
def test_a_type_of_another_language_is_refused_or_runs_here(kind: str) -> None:
    given = "" if kind.startswith("Read") else "input: Create, "
    spec = f"""
type: composite
transforms:
  - {{type: Create, config: {{elements: [{{a: 1}}]}}}}
  - {{type: {kind}, {given}config: {{a: b}}}}
"""
    with pytest.raises((ValueError, ConfigurationError), match=kind) as caught:
        _ = beam.Pipeline(BatchRunner()) | yaml_transform.YamlTransform(spec)
    if kind in REFUSED:
        assert caught.match(f"'YamlTransform/Composite/{kind}' .*cross-language")
        assert ("in another language" in str(caught.value)) is kind.endswith("-java")


@pytest.mark.parametrize("kind", BOTH)
def test_a_type_of_python_and_java_is_that_of_python(kind: str) -> None:
    providers = yaml_provider.standard_providers()
    scope = yaml_transform.Scope(beam.Pipeline(BatchRunner()), {}, [], providers, {})
    assert not any(map(runs_elsewhere, scope.providers[kind]))


OF_USER = """
pipeline:
  type: chain
  transforms:
    - {type: Create, config: {elements: [{n: 1}]}}
    - {type: WriteToJson, config: {path: out}}
providers:
  - {type: KIND, config: CONFIG, transforms: {WriteToJson: "mine:write:v1"}}
"""

WITH_PACKAGES = """
pipeline:
  type: chain
  transforms:
    - {type: Create, config: {elements: [{n: 2}]}}
    - {type: Twice, config: {field: n}}
    - {type: MapToFields, config: {language: python, dependencies: [click], fields: {n: n + 1}}}
    - {type: WriteToText, config: {path: out}}
providers:
  - type: pythonPackage
    config: {packages: ["PyYAML>=5", "/folder/apache_beam-VERSION-py3-none-any.whl"]}
    transforms:
      Twice: |
        def twice(field):
          return beam.Map(lambda row: beam.Row(n=2 * getattr(row, field))).with_output_types(
              beam.typehints.row_type.RowTypeConstraint.from_fields([("n", int)]))
""".replace("VERSION", beam.version.__version__)


@pytest.mark.usefixtures("alone")
def test_packages_that_are_installed_are_used() -> None:
    result = run(WITH_PACKAGES)
    assert result.exit_code == 0, result.output
    assert written() == ["5"]

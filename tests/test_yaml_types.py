"""The types of Beam YAML's catalogue that need no Java: the rows that each of them makes."""

from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.utils.timestamp import Timestamp

from sparkbeam import SparkRunner
from sparkbeam.replaced.yaml.providers import native

pytest.importorskip("sqlglot")
yaml = pytest.importorskip("yaml")
yaml_provider = pytest.importorskip("apache_beam.yaml.yaml_provider")
yaml_transform = pytest.importorskip("apache_beam.yaml.yaml_transform")
yaml_utils = pytest.importorskip("apache_beam.yaml.yaml_utils")

Rows = list[dict[str, Any]]

SALES = """
type: chain
transforms:
  - {type: Create, config: {elements: [{item: cup, n: 2}, {item: cup, n: 3}, {item: pen, n: 7}]}}
"""
"""The head of each chain: its transforms follow."""


class _Loader(yaml.SafeLoader):  # type: ignore[misc,name-defined]
    """Reads ``!at 5`` as a timestamp."""


_Loader.add_constructor("!at", lambda _, node: Timestamp(float(node.value)))


def cases(kind: str) -> dict[str, tuple[str, Rows]]:
    """Return the pipelines of a part of ``yaml_types.yaml``, and the rows that each makes."""
    found = yaml.load(Path(__file__).with_name("yaml_types.yaml").read_text(), _Loader)[kind]
    head, before = ("", "") if kind == "graphs" else (SALES, "  ")
    return {
        name: (head + indent(case["pipeline"].rstrip(), before), case["rows"])
        for name, case in found.items()
    }


CHAINS, GRAPHS, JAVASCRIPT = map(cases, ("chains", "graphs", "javascript"))

FILES: dict[str, tuple[str, str, Rows]] = {
    "Text": ("{path: PATH}", "{path: PATH*}", [{"line": "cup"}, {"line": "cup"}, {"line": "pen"}]),
    "TFRecord": (
        "{file_path_prefix: PATH}",
        "{file_pattern: PATH*}",
        [{"record": b"cup"}, {"record": b"cup"}, {"record": b"pen"}],
    ),
    **{
        kind: ("{path: PATH}", "{path: PATH*}", [{"item": "cup"}, {"item": "cup"}, {"item": "pen"}])
        for kind in ("Csv", "Json", "Parquet", "Avro")
    },
}
"""The configurations to write and read items, and the rows that are read."""

ELSEWHERE = {
    "Enrichment": "needs Google's packages",
    "DicomSearch": "needs Google's packages",
    "ReadFromBigQuery": "needs Google's packages",
    "PubSub": "packages/pubsub/tests/test_pubsub.py",
    "MongoDB": "tests/io/test_mongodb.py",
    "MLTransform": "tests/test_models.py",
    "RunInference": "tests/test_models.py",
    "Kafka": "packages/kafka/tests",
    "Jdbc": "packages/tables/tests",
    "Postgres": "packages/tables/tests",
    "MySql": "packages/tables/tests",
    "Oracle": "packages/tables/tests",
    "SqlServer": "packages/tables/tests",
    "Iceberg": "packages/tables/tests/test_iceberg.py",
    "IcebergCDC": "packages/tables/tests/test_iceberg_changes.py",
    "Delta": "packages/tables/tests/test_managed_delta.py",
    "DeltaCDC": "packages/tables/tests/test_managed_delta.py",
}
"""Where types are tested that are not tested here, or why they are not."""


def loaded(text: str) -> Any:
    return yaml.load(text, Loader=yaml_utils.SafeLineLoader)


def plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {name: plain(field) for name, field in value._asdict().items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def check(spark: Any, text: str, expected: Rows, *options: str) -> None:
    spec = loaded(text)
    found = yaml_provider.parse_providers("", spec.pop("providers", []))
    spec.setdefault("type", "composite")
    pipeline_options = PipelineOptions(options, pickle_library="cloudpickle")
    with beam.Pipeline(runner=SparkRunner(spark), options=pipeline_options) as pipeline:
        rows = pipeline | yaml_transform.YamlTransform(
            spec, providers=yaml_provider.merge_providers(found)
        )
        assert_that(rows | "Plain" >> beam.Map(plain), equal_to(expected))


@pytest.mark.part(5)
@pytest.mark.parametrize("name", CHAINS)
def test_chain(spark: Any, name: str) -> None:
    check(spark, *CHAINS[name])


@pytest.mark.part(3)
@pytest.mark.parametrize("name", GRAPHS)
def test_graph(spark: Any, name: str) -> None:
    check(spark, *GRAPHS[name])


@pytest.mark.parametrize("name", JAVASCRIPT)
def test_javascript(spark: Any, name: str) -> None:
    pytest.importorskip("quickjs")
    check(spark, *JAVASCRIPT[name], "--yaml_experimental_features=javascript")


def test_partition_in_javascript(spark: Any) -> None:
    pytest.importorskip("quickjs")
    text = """
transforms:
  - {type: Create, config: {elements: [{n: 1}, {n: 2}]}}
  - type: Partition
    input: Create
    config: {language: javascript, by: 'n > 1 ? "more" : "one"', outputs: [one, more]}
output: Partition.more
"""
    check(spark, text, [{"n": 2}], "--yaml_experimental_features=javascript")


@pytest.mark.part(5)
@pytest.mark.parametrize("kind", FILES)
def test_files_that_are_written_can_be_read(spark: Any, tmp_path: Path, kind: str) -> None:
    to, of, expected = FILES[kind]
    to, of = (config.replace("PATH", f"{tmp_path}/out") for config in (to, of))
    items = "item.encode()" if kind == "TFRecord" else "item"
    fields = f"- {{type: MapToFields, config: {{language: python, fields: {{item: {items}}}}}}}"
    text = f"{SALES}\n  {fields}\n  - {{type: WriteTo{kind}, config: {to}}}"
    with beam.Pipeline(runner=SparkRunner(spark)) as pipeline:
        _ = pipeline | yaml_transform.YamlTransform(loaded(text))
    read = f"type: chain\ntransforms: [{{type: ReadFrom{kind}, config: {of}}}]"
    check(spark, read, expected)


def test_match_all_finds_files(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("12345")
    text = f"""
type: chain
transforms:
  - {{type: Create, config: {{elements: [{{pattern: "{tmp_path}/*.txt"}}]}}}}
  - {{type: MatchAll, config: {{file_pattern: pattern}}}}
  - {{type: MapToFields, config: {{fields: {{size: size_in_bytes}}}}}}
"""
    check(spark, text, [{"size": 5}])


def test_csv_has_a_delimiter_and_a_column_of_names(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item;n\ncup;2\npen;7\n")
    config = f"{{path: '{tmp_path}/a.csv', delimiter: ';', filename_column: file}}"
    text = f"""
type: chain
transforms:
  - {{type: ReadFromCsv, config: {config}}}
  - {{type: MapToFields, config: {{language: python, fields: {{n: n, file: "file[-5:]"}}}}}}
"""
    check(spark, text, [{"n": 2, "file": "a.csv"}, {"n": 7, "file": "a.csv"}])


def test_a_wrong_row_fails_assert_equal(spark: Any) -> None:
    wrong = f"{SALES}\n  - {{type: AssertEqual, config: {{elements: [{{item: cup, n: 2}}]}}}}"
    with (
        pytest.raises(Exception, match="AssertEqual"),
        beam.Pipeline(runner=SparkRunner(spark)) as pipeline,
    ):
        _ = pipeline | yaml_transform.YamlTransform(loaded(wrong))


def types_in(spec: Any) -> Iterator[str]:
    """Types of a preprocessed transform and of those within it."""
    yield spec["type"]
    for each in spec.get("transforms", []):
        yield from types_in(each)


def test_each_type_without_java_is_tested() -> None:
    tested = {f"{way}{kind}" for kind in FILES for way in ("ReadFrom", "WriteTo")}
    tested |= {"MatchAll", "Partition-javascript"}
    kinds = yaml_provider.standard_providers()
    for text, _ in [*CHAINS.values(), *JAVASCRIPT.values(), *GRAPHS.values()]:
        spec = {"type": "composite", **loaded(text)}
        if "providers" not in spec:
            tested |= {*types_in(yaml_transform.preprocess(spec, known_transforms=kinds))}
    java = yaml_provider.ExternalJavaProvider
    runnable = {
        kind
        for kind, providers in kinds.items()
        if not all(isinstance(native(kind, p).underlying_provider(), java) for p in providers)
    }
    rest = {kind for kind in runnable if kind not in tested}
    assert {k.removeprefix("ReadFrom").removeprefix("WriteTo") for k in rest} - {*ELSEWHERE} == {
        "BigQuery"
    }

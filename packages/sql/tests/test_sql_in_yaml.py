"""Beam YAML's transforms that are queries, without Java."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from sparkbeam import SparkRunner

pytest.importorskip("sqlglot")
yaml_transform = pytest.importorskip("apache_beam.yaml.yaml_transform")
main = pytest.importorskip("apache_beam.yaml.main")

PIPELINE = """
type: composite
transforms:
  - type: Create
    name: Sales
    config: {elements: [{id: 1, n: 2}, {id: 1, n: 3}, {id: 2, n: 7}]}
  - type: Create
    name: Items
    config: {elements: [{id: 1, name: cup}, {id: 2, name: pen}]}
  - type: Join
    input: {sales: Sales, items: Items}
    config:
      type: inner
      equalities: id
      fields: {sales: [n], items: [name]}
  - type: MapToFields
    input: Join
    config: {language: sql, fields: {name: name, n: "n / 2"}}
  - type: Filter
    input: MapToFields
    config: {language: calcite, keep: "n > 0"}
  - type: Combine
    input: Filter
    config: {language: sql, group_by: name, combine: {total: {value: n, fn: {type: sum}}}}
  - type: Sql
    input: Combine
    config: {query: "SELECT UPPER(name) AS name, total FROM PCOLLECTION"}
output: Sql
"""
EXPECTED = [("CUP", 2), ("PEN", 3)]


def test_queries_are_those_of_spark(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nothing")  # No Java is found.
    with beam.Pipeline(runner=SparkRunner(spark)) as pipeline:
        rows = pipeline | yaml_transform.YamlTransform(PIPELINE)
        assert_that(rows | beam.Map(tuple), equal_to(EXPECTED))


def test_providers_of_the_pipeline_come_first(spark: Any) -> None:
    with beam.Pipeline(runner=SparkRunner(spark)) as pipeline:
        spec = "{type: chain, transforms: [{type: Create, config: {elements: [1]}}, {type: Sql}]}"
        rows = pipeline | yaml_transform.YamlTransform(
            spec, providers={"Sql": lambda: beam.Map(lambda row: "mine")}
        )
        assert_that(rows, equal_to(["mine"]))


def test_other_runners_keep_the_providers_of_beam() -> None:
    SparkRunner()
    pipeline = beam.Pipeline(runner="BundleBasedDirectRunner")
    scope = yaml_transform.Scope(pipeline, {}, [], {"Sql": ["theirs"]}, {})
    assert scope.providers == {"Sql": ["theirs"]}


def test_the_command_of_beam_runs_a_pipeline_with_a_query(spark: Any, tmp_path: Path) -> None:
    spec = tmp_path / "pipeline.yaml"
    spec.write_text(
        "pipeline: {type: chain, transforms: ["
        "{type: Create, config: {elements: [{a: 5}]}}, "
        "{type: Sql, config: {query: 'SELECT a / 2 AS h FROM PCOLLECTION'}}, "
        f"{{type: WriteToCsv, config: {{path: '{tmp_path}/out.csv'}}}}]}}"
    )
    main.run([f"--yaml_pipeline_file={spec}", "--runner=sparkbeam.SparkRunner"])
    (written,) = tmp_path.glob("out*")
    assert written.read_text().split() == ["h", "2"]

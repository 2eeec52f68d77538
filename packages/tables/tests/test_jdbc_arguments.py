"""Arguments of ``ReadFromJdbc`` and ``WriteToJdbc``, most of them over Derby, which Spark has."""

from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import page_programs
import pytest
from apache_beam.io.jdbc import ReadFromJdbc, WriteToJdbc
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from database_servers import Sql

from sparkbeam import ConfigurationError, SparkRunner
from sparkbeam.upstream.spark import jdbc_connection
from sparkbeam_tables import catalog_reads as table_reads

SECRET = "hunter2-of-nobody"


class Pair(NamedTuple):
    """A row whose fields have other names than the columns."""

    key: int
    value: str | None


def rows(spark: Any, given: dict[str, Any], expected: list[Any], **arguments: Any) -> None:
    with beam.Pipeline(SparkRunner(session=spark)) as p:
        found = p | ReadFromJdbc(**{**given, **arguments})
        assert_that(found | beam.Map(tuple), equal_to(expected))


@pytest.mark.part(5)
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": "SELECT * FROM pairs WHERE id = 1 OR id > 1 -- all\n;"},
        {"fetch_size": 1, "output_parallelization": True, "disable_autocommit": True},
        {"partition_column": "id", "partitions": 9, "max_connections": 2},
        {"connection_properties": "a=b; c ", "max_connections": -1},
        {"driver_jars": "/no/such/file.jar", "classpath": ["no.such:package:1"]},
    ],
)
def test_rows_are_the_same_however_they_are_read(
    spark: Any, derby: dict[str, Any], arguments: dict[str, Any]
) -> None:
    """Archives are only looked for if the session lacks the driver."""
    rows(spark, derby, [(1, "a", 7), (2, None, 7)], **arguments)


def test_fields_are_written_by_position_and_a_column_without_one_has_its_default(
    spark: Any, derby: dict[str, Any]
) -> None:
    with beam.Pipeline(SparkRunner(session=spark)) as p:
        pairs = p | beam.Create([Pair(3, "c"), Pair(4, "d")]).with_output_types(Pair)
        _ = pairs | WriteToJdbc(**derby, write_batch_size=1, max_connections=1, autosharding=True)
    rows(spark, derby, [(1, "a", 7), (2, None, 7), (3, "c", 7), (4, "d", 7)])


def test_a_plan_shows_no_secret(spark: Any, derby: dict[str, Any]) -> None:
    runner = SparkRunner(session=spark)
    p = beam.Pipeline(runner)
    found = p | ReadFromJdbc(**{**derby, "query": f"SELECT * FROM pairs WHERE name = '{SECRET}'"})
    _ = found | WriteToJdbc(**derby)
    explained = runner.explain(p)
    assert "ReadFromJdbc" in str(explained)
    assert SECRET not in str(explained)


@pytest.mark.long("half a minute; a stream that fails reads one too")
def test_a_stream_reads_a_table_once_at_its_start(
    spark: Any, derby: dict[str, Any], tmp_path: Path
) -> None:
    checkpoint = f"--checkpoint_location={tmp_path}/checkpoint"

    def run() -> list[Any]:
        with beam.Pipeline(
            SparkRunner(session=spark), PipelineOptions(["--streaming", checkpoint])
        ) as p:
            pairs = p | "Read" >> ReadFromJdbc(**derby)
            names = beam.pvalue.AsDict(pairs | beam.Map(lambda row: (row.ID, row.NAME)))
            named = p | beam.Create([1, 2]) | beam.Map(lambda n, names: names[n], names)
            counted = pairs | beam.GroupBy("MORE").aggregate_field("ID", sum, "ids")
            _ = (
                named
                | "Names" >> beam.combiners.ToList()
                | "All" >> beam.Map(_noted, tmp_path / "1")
            )
            _ = counted | "Sums" >> beam.Map(_noted, tmp_path / "2")
        return [(tmp_path / name).read_text() for name in "12"]

    assert run() == ["['a', None]", "[7, 3]"]
    with jdbc_connection(spark, {"url": derby["jdbc_url"], "dbtable": "t"}) as (connection, _):
        connection.createStatement().executeUpdate("INSERT INTO pairs (id) VALUES (3)")
    assert run() == ["['a', None]", "[7, 3]"]


def test_a_stream_reads_no_row_and_tells_of_a_row_that_fails(
    spark: Any, derby: dict[str, Any]
) -> None:
    with beam.Pipeline(SparkRunner(session=spark), PipelineOptions(["--streaming"])) as p:
        none = p | ReadFromJdbc(**{**derby, "query": "SELECT * FROM pairs WHERE id > 9"})
        assert_that(none, equal_to([]))
    wrong = beam.Pipeline(SparkRunner(session=spark), PipelineOptions(["--streaming"]))
    with pytest.raises(ConfigurationError, match=r"'Read/Read': Spark cannot read the table") as it:
        _ = wrong | "Read" >> ReadFromJdbc(
            **{**derby, "query": "SELECT 1 / (id - 1) AS n FROM pairs"}
        )
    assert SECRET not in str(it.value)


def _noted(values: Any, path: Path) -> None:
    path.write_text(str([*values]))


def test_a_stream_refuses_a_large_table(
    spark: Any, derby: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_reads, "_MOST_BYTES", 8)
    p = beam.Pipeline(SparkRunner(session=spark), PipelineOptions(["--streaming"]))
    with pytest.raises(ConfigurationError, match=r"'Read/Read': The table has .*driver"):
        _ = p | "Read" >> ReadFromJdbc(**derby)


def test_the_program_of_the_page_runs(
    postgresql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgresql("CREATE TABLE orders (id INT, city TEXT, amount INT)")
    postgresql("INSERT INTO orders VALUES (1, 'Bonn', 3), (2, 'Bonn', 4), (3, 'Ulm', 5)")
    postgresql("CREATE TABLE totals (city TEXT, total BIGINT)")
    monkeypatch.setenv("SHOP_PASSWORD", postgresql.server.password)
    places = {"jdbc:postgresql://localhost:5432/shop": postgresql.server.url}
    page_programs.run("jdbc", tmp_path, monkeypatch, [], places)
    assert sorted(postgresql.rows("SELECT * FROM totals")) == [("Bonn", "7"), ("Ulm", "5")]


def test_statements_of_a_connection_are_run_before_it_reads(spark: Any, postgresql: Sql) -> None:
    postgresql("CREATE TABLE settings AS SELECT 1 AS one")
    query = "SELECT current_setting('my.a', true) || current_setting('my.b', true) AS both"
    rows(
        spark,
        {"table_name": "", **postgresql.server.arguments()},
        [("12",)],
        query=query,
        connection_init_sqls=["SET my.a = '1';", "SET my.b = '2'"],
    )

"""Tables, views and queries by name: read and written, in batch and in streaming."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
import streams
from apache_beam.testing.util import assert_that, equal_to
from streams import pipeline_on

from sparkbeam.io import FromDataFrame, ReadFromSpark, WriteToSpark

SCHEMA = "id bigint, day string"


@pytest.fixture
def clicks(spark: Any) -> Iterator[str]:
    spark.sql("CREATE DATABASE shop")
    spark.sql("CREATE TABLE shop.clicks (id BIGINT, day STRING) USING json PARTITIONED BY (day)")
    spark.sql("INSERT INTO shop.clicks VALUES (1, 'mon'), (2, 'tue')")
    yield "shop.clicks"
    spark.sql("DROP DATABASE shop CASCADE")


def rows_of(spark: Any, table: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, spark.table(table).select("id", "day").collect()))


def test_tables_views_and_queries_are_read(spark: Any, clicks: str) -> None:
    spark.sql("CREATE VIEW shop.mondays AS SELECT * FROM shop.clicks WHERE day = 'mon'")
    spark.table(clicks).createOrReplaceTempView("clicks_of_mine")
    query = "WITH a AS (SELECT id + 10 AS id, day FROM shop.clicks) SELECT * FROM a -- all"
    with pipeline_on(spark) as pipeline:
        reads = {
            "table": ReadFromSpark(table=clicks),
            "view": ReadFromSpark(table="shop.mondays"),
            "temporary": ReadFromSpark(table="clicks_of_mine"),
            "query": ReadFromSpark(query=f"{query};"),
        }
        for name, read in reads.items():
            ids = pipeline | name >> read | f"{name} ids" >> beam.Map(lambda row: row.id)
            expected = {"view": [1], "query": [11, 12]}.get(name, [1, 2])
            assert_that(ids, equal_to(expected), name)


def test_columns_within_structs_and_of_files_are_read_of_all_that_has_them(
    spark: Any, clicks: str
) -> None:
    query = f"SELECT struct(id AS number, _metadata.file_name AS file) AS inner FROM {clicks}"
    frame = spark.table(clicks).selectExpr("struct(id AS number) AS inner")
    with pipeline_on(spark) as pipeline:
        reads = {
            "table": ReadFromSpark(table=clicks, columns=["id", "_metadata.file_name"]),
            "query": ReadFromSpark(query=query, columns=["inner.number", "inner.file"]),
            "frame": FromDataFrame(frame, columns=["inner.number", "_metadata.file_name"]),
        }
        for name, read in reads.items():
            rows = pipeline | name >> read
            found = rows | f"{name} found" >> beam.Map(
                lambda row: [str(value)[:5] for value in row]
            )
            assert_that(found, equal_to([["1", "part-"], ["2", "part-"]]), name)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_table_that_is_there_keeps_its_format_and_partitions(
    spark: Any, clicks: str, mode: str
) -> None:
    assert rows_of(spark, clicks) == [(1, "mon"), (2, "tue")]
    with pipeline_on(spark) as pipeline:
        rows = pipeline | beam.Create([{"day": "wed", "id": 3}])
        _ = rows | WriteToSpark(table=clicks, schema="day string, id int", mode=mode)
    before, new = [(1, "mon"), (2, "tue")], [(3, "wed")]
    expected = {"append": before + new, "overwrite": new}
    assert rows_of(spark, clicks) == expected[mode]
    told = dict(row[:2] for row in spark.sql(f"DESCRIBE TABLE EXTENDED {clicks}").collect())
    assert told["Provider"].lower() == "json"


def test_a_whole_result_takes_the_place_of_what_a_table_had(
    spark: Any, clicks: str, tmp_path: Path
) -> None:
    write = WriteToSpark(table=clicks, schema=SCHEMA, output_mode="complete", key=["id"])
    with pipeline_on(spark) as pipeline:
        rows = [{"id": 3, "day": "wed"}, {"id": 3, "day": "thu"}]
        _ = pipeline | beam.Create(rows, reshuffle=False) | write
    assert rows_of(spark, clicks) == [(3, "thu")]

    def build(p: beam.Pipeline) -> None:
        _ = p | beam.Create([{"id": 4, "day": "fri"}]) | write

    streams.run_available(spark, tmp_path / "checkpoint", build)
    assert rows_of(spark, clicks) == [(4, "fri")]


@pytest.mark.usefixtures("clicks")
def test_a_table_that_is_not_there_is_made(spark: Any) -> None:
    with pipeline_on(spark) as pipeline:
        rows = pipeline | beam.Create([{"id": 1, "day": "mon"}])
        _ = rows | "Plain" >> WriteToSpark(table="shop.plain", schema=SCHEMA)
        _ = rows | "CSV" >> WriteToSpark(
            "csv", table="shop.divided", schema=SCHEMA, partition_by=["day"]
        )
    assert rows_of(spark, "shop.plain") == rows_of(spark, "shop.divided") == [(1, "mon")]
    columns = spark.catalog.listColumns("shop.divided")
    assert [column.name for column in columns if column.isPartition] == ["day"]


def test_tables_of_the_catalog_of_a_database_are_written(spark: Any, tmp_path: Path) -> None:
    settings = {
        "": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        ".url": f"jdbc:derby:memory:{tmp_path.name};create=true",
        ".driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
    }
    for name, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.db{name}", value)
    rows = [{"id": 1, "day": "mon"}, {"id": 2, "day": "tue"}, {"id": 1, "day": "wed"}]
    streams.write_json(tmp_path / "in" / "0.json", rows)

    def build(p: beam.Pipeline) -> None:
        read = p | ReadFromSpark("json", {"path": tmp_path / "in"}, SCHEMA)
        for mode, more in modes.items():
            _ = read | mode >> WriteToSpark(table=f"db.APP.{mode}", schema=SCHEMA, **more)

    modes: dict[str, Any] = {"APPEND": {}, "COMPLETE": {"output_mode": "complete", "key": ["id"]}}
    for table in modes:
        spark.sql(f"CREATE TABLE db.APP.{table} ({SCHEMA}, more int)")
    streams.run_available(spark, tmp_path / "checkpoint", build)
    assert rows_of(spark, "db.APP.APPEND") == [(1, "mon"), (1, "wed"), (2, "tue")]
    assert rows_of(spark, "db.APP.COMPLETE") == [(1, "wed"), (2, "tue")]


@pytest.mark.long("30 s; test_restart.py has it of files, and test_iceberg.py of tables")
def test_streams_read_tables_and_add_to_them_once(spark: Any, clicks: str, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    spark.sql("CREATE TABLE shop.copy (day STRING, id INT) USING parquet PARTITIONED BY (day)")
    assert rows_of(spark, "shop.copy") == []
    out = tmp_path / "out"

    def build(pipeline: beam.Pipeline) -> None:
        rows = pipeline | ReadFromSpark(table=clicks)
        _ = rows | "Copy" >> WriteToSpark(table="shop.copy", schema="id int, day string")
        _ = rows | "New" >> WriteToSpark(table="shop.new", schema=SCHEMA)
        query = "SELECT id * 10 AS id FROM STREAM(shop.clicks) WHERE id > 1"
        _ = pipeline | ReadFromSpark(query=query) | streams.to_notes(out)

    streams.run_available(spark, checkpoint, build)
    assert rows_of(spark, "shop.copy") == [(1, "mon"), (2, "tue")]
    streams.rewind(checkpoint, 0)
    spark.sql("INSERT INTO shop.clicks VALUES (3, 'wed')")
    streams.run_available(spark, checkpoint, build)
    everything = [(1, "mon"), (2, "tue"), (3, "wed")]
    assert rows_of(spark, "shop.copy") == rows_of(spark, "shop.new") == everything
    assert streams.notes(out)["0"] == [[[20]], [[20]]], "the same number, the same elements"

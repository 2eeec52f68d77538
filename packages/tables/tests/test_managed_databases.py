"""``managed.Read`` and ``managed.Write`` of databases."""

import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
import yaml
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import managed
from database_servers import Sql

from sparkbeam import SparkRunner
from sparkbeam.connectors.jdbc_urls import known_url
from sparkbeam.io import ReadFromSpark, WriteToSpark


def login(sql: Sql) -> dict[str, str]:
    server = sql.server
    return {"jdbc_url": server.url, "username": server.user, "password": server.password}


def test_rows_are_written_and_read(spark: Any, postgresql: Sql, tmp_path: Path) -> None:
    """With the configuration in a file, too; the driver is known from the system."""
    postgresql("CREATE TABLE managed (id int, name text)")
    place = login(postgresql)
    with beam.Pipeline(SparkRunner(session=spark)) as p:
        rows = p | beam.Create([1, 2]) | beam.Map(lambda n: beam.Row(id=int(n), name=str(n)))
        _ = rows | managed.Write(
            managed.POSTGRES, config={**place, "location": "managed", "batch_size": 1}
        )
    file = tmp_path / "read.yaml"
    file.write_text(yaml.dump({**place, "read_query": "SELECT * FROM managed WHERE id > 1"}))
    with beam.Pipeline(SparkRunner(session=spark)) as p:
        found = p | "Some" >> managed.Read(managed.POSTGRES, config_url=str(file))
        assert_that(found | beam.Map(tuple), equal_to([(2, "2")]))


PIPELINE = """
type: chain
transforms:
  - type: ReadFromJdbc
    config: {{type: postgres, {login}, query: "SELECT id, name FROM source WHERE id > 1"}}
  - type: WriteToPostgres
    config: {{{login}, table: target}}
"""


def test_yaml_has_the_same_under_its_own_names(spark: Any, postgresql: Sql) -> None:
    yaml_transform = pytest.importorskip("apache_beam.yaml.yaml_transform")
    postgresql("CREATE TABLE source AS VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    postgresql("ALTER TABLE source RENAME column1 TO id")
    postgresql("ALTER TABLE source RENAME column2 TO name")
    postgresql("CREATE TABLE target (id int, name text)")
    server = postgresql.server
    place = {"url": server.url, "username": server.user, "password": server.password}
    given = ", ".join(f"{key}: {json.dumps(value)}" for key, value in place.items())
    with beam.Pipeline(SparkRunner(session=spark)) as p:
        _ = p | yaml_transform.YamlTransform(PIPELINE.format(login=given))
    assert postgresql.rows("SELECT * FROM target ORDER BY id") == [("2", "b"), ("3", None)]


def test_mariadb_keeps_types_and_runs_first_statements(spark: Any, mariadb: Sql) -> None:
    mariadb(
        "CREATE TABLE typed (id bigint, price decimal(10,2), day date, at time(6),"
        " moment datetime(6), flag bit(1), stamp timestamp(6), huge decimal(65,30),"
        " whole bigint unsigned, kind enum('a', 'b'))"
    )
    mariadb(
        "INSERT INTO typed VALUES (1, 1.5, '2020-02-29', '10:20:30.123456',"
        " '2024-03-10 02:30:00.123456', 1, '2024-03-10 02:30:00.123456',"
        " 12345678901234567890123456789012345.5, 18446744073709551615, 'b')"
    )
    mariadb("CREATE TABLE copied LIKE typed")
    place = login(mariadb)
    with beam.Pipeline(SparkRunner(session=spark)) as p:
        rows = p | managed.Read(
            managed.MYSQL,
            config={
                **place,
                "location": "typed",
                "connection_init_sql": ["SET @a = 1", "SET @b = 2"],
                "partition_column": "id",
                "num_partitions": 2,
            },
        )
        _ = rows | managed.Write(managed.MYSQL, config={**place, "location": "copied"})
    assert mariadb.rows("SELECT * FROM copied") == mariadb.rows("SELECT * FROM typed")


def test_sources_and_sinks_of_spark_take_the_url_of_mariadb(spark: Any, mariadb: Sql) -> None:
    mariadb("CREATE TABLE spoken (id int, name text)")
    mariadb("INSERT INTO spoken VALUES (1, 'a')")
    mariadb("CREATE TABLE written LIKE spoken")
    server = mariadb.server
    place = {"url": server.url, "user": server.user, "password": server.password}
    with beam.Pipeline(SparkRunner(session=spark)) as p:
        rows = p | ReadFromSpark("jdbc", {**place, "dbtable": "spoken"})
        _ = rows | WriteToSpark("jdbc", {**place, "dbtable": "written"}, "id int, name string")
    assert mariadb.rows("SELECT id, name FROM written") == [("1", "a")]


@pytest.mark.parametrize(
    ("scheme", "driver", "known"),
    [
        ("postgresql", {}, "org.postgresql.Driver"),
        ("postgresql", {"Driver": "a.B"}, "a.B"),
        ("mariadb", {}, "org.mariadb.jdbc.Driver"),
        ("mysql", {}, None),
    ],
)
def test_the_driver_of_a_url_is_known_where_there_is_but_one(
    scheme: str, driver: dict[str, str], known: str | None
) -> None:
    found = known_url("jdbc", {"URL": f"jdbc:{scheme}://h/d", **driver})
    assert next((v for k, v in found.items() if k.lower() == "driver"), None) == known


@pytest.mark.parametrize(
    "url", ["jdbc:mysql://me:p@h/d", "jdbc:oracle:thin:me/p@//h:1/s", "jdbc:postgresql://h/d?a=b@c"]
)
def test_accounts_that_a_driver_takes_stay_in_its_url(url: str) -> None:
    assert known_url("jdbc", {"url": url})["url"] == url

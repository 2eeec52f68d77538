"""``managed.Read`` and ``managed.Write`` of databases."""

import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
import yaml
from apache_beam.io.jdbc import ReadFromJdbc, WriteToJdbc
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import managed
from database_servers import Sql
from in_process_batch import BatchRunner

from sparkbeam import ConfigurationError, SparkRunner
from sparkbeam.connectors.jdbc_urls import known_url
from sparkbeam.io import ReadFromSpark, WriteToSpark

SECRET = "hunter2-of-nobody"
PLACE = {"jdbc_url": "jdbc:postgresql://h/d", "password": SECRET}


def test_rows_are_written_and_read(spark: Any, postgresql: Sql, tmp_path: Path) -> None:
    """With the configuration in a file, too; the driver is known from the system."""
    postgresql("CREATE TABLE managed (id int, name text)")
    place = {
        "jdbc_url": postgresql.server.url,
        "username": postgresql.server.user,
        "password": postgresql.server.password,
    }
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
    login = ", ".join(f"{key}: {json.dumps(value)}" for key, value in place.items())
    with beam.Pipeline(SparkRunner(session=spark)) as p:
        _ = p | yaml_transform.YamlTransform(PIPELINE.format(login=login))
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
    place = {
        "jdbc_url": mariadb.server.url,
        "username": mariadb.server.user,
        "password": mariadb.server.password,
    }
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


WRONG_READS: list[tuple[str, Any, str]] = [
    ("postgres", {"location": "t"}, "needs 'jdbc_url'"),
    ("postgres", PLACE, "give either location or read_query"),
    ("postgres", {**PLACE, "location": "t", "tabel": 1}, "has tabel, which is not supported"),
    ("postgres", {**PLACE, "location": 3}, "'location' in the configuration must be a string"),
    (
        "postgres",
        {**PLACE, "location": "t", "secret_manager": "GoogleCloudSecretManager"},
        "secret_manager is not supported: .* os.environ, pass it as password",
    ),
    (
        "kafka",
        {"bootstrap_servers": "h:1", "topic": "t", "secret_manager_name": "x"},
        "secret_manager_name is not supported: .* pass it as the secret",
    ),
    ("mysql", {**PLACE, "location": "t"}, "jdbc_url must begin with jdbc:mysql"),
    (
        "postgres",
        {"jdbc_url": f"jdbc:postgresql://me:{SECRET}@h/d", "location": "t"},
        "jdbc_url has an account before the host, .* of postgresql .* username and password",
    ),
    (
        "mysql",
        {"jdbc_url": f"jdbc:mariadb://me:{SECRET}@h/d", "location": "t"},
        "the driver of mariadb does not accept",
    ),
    ("postgres", {**PLACE, "locaton": "t"}, "in the configuration; it has 'locaton"),
    ("delta", {"tabel": "/t"}, "the configuration needs 'table'; it has 'tabel'"),
    ("delta", {"table": "/t", "versoin": 1}, "versoin, .* For 'versoin' use 'version'. Supported"),
    ("postgres", None, "the configuration must be a dictionary"),
    ("postgres", json.dumps(PLACE), "must be a dictionary; parse JSON text with json.loads"),
    ("delta", {"table": "/t", "version": 1, "timestamp": "x"}, "give either version or timestamp"),
    ("delta", {"table": "/t", "hadoop_config": {"a": 1}}, "hadoop_config has 'a'"),
    ("delta_cdc", {"table": "/t"}, "give start_version or start_timestamp"),
    (
        "delta_cdc",
        {"table": "/t", "start_version": 0, "include_metadata_columns": ["a"]},
        "include_metadata_columns has 'a'",
    ),
    (
        "delta_cdc",
        {"table": "/t", "start_version": 2, "end_version": 1},
        "end_version='1' is before start_version='2': swap them",
    ),
    (
        "delta_cdc",
        {"table": "/t", "start_timestamp": "2020-01-02 00:00:00", "end_timestamp": "2020-01-01"},
        "end_timestamp='2020-01-01' is before start_timestamp='2020-01-02 00:00:00'",
    ),
    ("iceberg", {"table": "t", "keep": ["a"], "drop": ["b"]}, "give either keep or drop"),
    (
        "iceberg_cdc",
        {"table": "t", "from_snapshot": 1, "from_timestamp": 1},
        "give either from_snapshot or from_timestamp, not both",
    ),
    (
        "iceberg_cdc",
        {"table": "t", "to_snapshot": 1, "to_timestamp": 1},
        "give either to_snapshot or to_timestamp, not both",
    ),
    (
        "iceberg_cdc",
        {"table": "t", "from_timestamp": 2, "to_timestamp": 1},
        "to_timestamp=1 is before from_timestamp=2: swap them",
    ),
    (
        "iceberg_cdc",
        {"table": "t", "from_snapshot": 2, "starting_strategy": "latest"},
        "starting_strategy cannot be combined with from_snapshot or from_timestamp",
    ),
    ("iceberg_cdc", {"table": "t", "from_snapshot": "2"}, "must be a whole number"),
    ("iceberg_cdc", {"table": "t", "to_timestamp": True}, "must be a whole number"),
]


@pytest.mark.parametrize(("system", "config", "message"), WRONG_READS)
def test_a_wrong_configuration_is_an_error_with_label_and_key(
    system: str, config: Any, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"'Orders': .*{message}") as caught:
        _ = beam.Pipeline(BatchRunner()) | "Orders" >> managed.Read(system, config)
    assert SECRET not in str(caught.value)


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


def test_an_option_with_an_account_that_no_driver_takes_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"option url has .* options user and pass") as it:
        _ = ReadFromSpark("jdbc", {"url": f"jdbc:postgresql://me:{SECRET}@h/d", "dbtable": "t"})
    assert SECRET not in str(it.value)


def test_a_configuration_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="config_url='/no/file' cannot be read as YAML"):
        _ = beam.Pipeline(BatchRunner()) | managed.Read("delta", config_url="/no/file")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"table_name": " "}, "table_name is empty: give the table, or a query"),
        ({"table_name": "t", "fetch_size": 0}, "fetch_size=0 must be at least 1"),
        ({"table_name": "t", "partitions": -2}, "partitions=-2 must be at least 1"),
        ({"table_name": "t", "jdbc_url": "postgresql://h/d"}, "jdbc_url is not the URL"),
    ],
)
def test_a_read_of_nothing_is_an_error_with_label_and_argument(
    given: dict[str, Any], message: str
) -> None:
    place = {"driver_class_name": "a.B", "username": "", "password": SECRET}
    place["jdbc_url"] = PLACE["jdbc_url"]
    with pytest.raises(ConfigurationError, match=f"^'Orders': {message}"):
        _ = beam.Pipeline(BatchRunner()) | "Orders" >> ReadFromJdbc(**{**place, **given})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"table_name": ""}, "table_name is empty: give the table, or a statement"),
        ({"table_name": "t", "write_batch_size": -1}, "write_batch_size=-1 must be at least 1"),
    ],
)
def test_a_write_to_nothing_is_an_error_with_label_and_argument(
    given: dict[str, Any], message: str
) -> None:
    place = {"driver_class_name": "a.B", "username": "", "password": SECRET}
    place["jdbc_url"] = PLACE["jdbc_url"]
    rows = beam.Pipeline(BatchRunner()) | beam.Create([beam.Row(a=1)])
    with pytest.raises(ConfigurationError, match=f"^'Orders': {message}"):
        _ = rows | "Orders" >> WriteToJdbc(**{**place, **given})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"table": "t", "keep": ["a"], "only": "b"}, "give only one of keep, drop and only"),
        ({"table": "t", "partition_fields": ["bucket(a)"]}, r"'bucket\(a\)' is not a partition"),
        ({"table": "t", "write_properties": {"a": "b"}}, "write_properties is not supported"),
    ],
)
def test_a_wrong_write_is_an_error_with_label_and_key(config: dict[str, Any], message: str) -> None:
    rows = beam.Pipeline(BatchRunner()) | beam.Create([beam.Row(a=1)])
    with pytest.raises(ConfigurationError, match=f"'Orders': .*{message}"):
        _ = rows | "Orders" >> managed.Write(managed.ICEBERG, config)

"""A free statement of ``WriteToJdbc``, which a Python client of the database runs."""

import datetime
import importlib.util
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam.io.jdbc import WriteToJdbc
from apache_beam.utils.timestamp import Timestamp
from database_servers import Sql
from in_process_batch import BatchRunner

from sparkbeam import ConfigurationError, PipelineFailed, SparkRunner
from sparkbeam.worker.connectors import database_client
from sparkbeam.worker.connectors.database_client import translated

SECRET = "hunter2-of-nobody"


class Sale(NamedTuple):
    """A row."""

    id: int
    item: str
    price: Decimal
    day: datetime.date
    at: Timestamp


SALES = [
    Sale(n, f"it'em ? {n}", Decimal("1.50"), datetime.date(2020, 1, 2), Timestamp(n + 0.5))
    for n in range(5)
]


def written(
    url: str, rows: list[Any], kind: Any = Sale, spark: Any = None, **arguments: Any
) -> None:
    runner = BatchRunner() if spark is None else SparkRunner(session=spark)
    with beam.Pipeline(runner) as p:
        given = {
            "table_name": "sales",
            "driver_class_name": "",
            "jdbc_url": url,
            "username": "",
            "password": "",
            **arguments,
        }
        _ = p | beam.Create(rows).with_output_types(kind) | "Store" >> WriteToJdbc(**given)


def test_a_row_is_the_parameters_of_the_statement(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "data base.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE sales (id INT PRIMARY KEY, item, price, day, at, note)")
        database.execute("INSERT INTO sales VALUES (3, 'old', 0, 0, 0, 0)")
    statement = (
        "INSERT INTO sales VALUES (?, ?, ?, ?, ?, '50% ?') "
        "ON CONFLICT (id) DO UPDATE SET item = 'new'"
    )
    written(f"jdbc:sqlite:{path}", SALES, spark=spark, statement=statement, write_batch_size=2)
    with sqlite3.connect(path) as database:
        found = database.execute("SELECT * FROM sales ORDER BY id").fetchall()
    assert found[0] == (
        *(0, "it'em ? 0", "1.50", "2020-01-02", "1970-01-01 00:00:00.500000+00:00", "50% ?"),
    )
    assert [row[1] for row in found] == ["it'em ? 0", "it'em ? 1", "it'em ? 2", "new", "it'em ? 4"]


@pytest.mark.parametrize(
    ("statement", "scheme", "expected"),
    [
        ("INSERT INTO t VALUES (?, '?', ?)", "postgresql", ("…(%s, '?', %s)", 2)),
        (
            """UPDATE t SET "a?" = ?, b = '%' -- ?""",
            "postgresql",
            ("""…"a?" = %s, b = '%%' -- ?""", 1),
        ),
        (
            "SELECT $q$ ? $q$, a ?? 'k', /* ? */ ?",
            "postgresql",
            ("…$q$ ? $q$, a ? 'k', /* ? */ %s", 1),
        ),
        (r"UPDATE `t?` SET a = 'it\'s ?', b = ?", "mysql", (r"…`t?` SET a = 'it\'s ?', b = %s", 1)),
        (r"UPDATE t SET a = '\', b = ?", "postgresql", (r"…SET a = '\', b = %s", 1)),
        ("UPDATE t SET a = 'it''s ?', b = ?", "sqlite", ("…'it''s ?', b = ?", 1)),
    ],
)
def test_only_a_mark_outside_of_texts_and_comments_is_a_parameter(
    statement: str, scheme: str, expected: tuple[str, int]
) -> None:
    found, count = translated(statement, scheme)
    assert found.endswith(expected[0].removeprefix("…"))
    assert count == expected[1]


@pytest.mark.parametrize(
    ("url", "arguments", "message"),
    [
        ("jdbc:oracle:thin:@h:1:x", {"statement": "?"}, "not for 'oracle': leave them out"),
        ("jdbc:sqlite:x", {"statement": "(?, ?)"}, r"2 parameters .* 5 fields \(id, item,"),
        ("jdbc:mysql://h/d?who=1", {"statement": "?"}, "parameter 'who' .* leave it out"),
        ("postgresql://h/d", {}, "jdbc_url is not the URL of a database"),
        ("jdbc:x:y", {"connection_properties": "fetchsize=1"}, "'fetchsize' is an option of Spark"),
        (
            "jdbc:x:y",
            {"secret_manager": "GoogleCloudSecretManager"},
            "'Store': secret_manager is not",
        ),
    ],
)
def test_a_wrong_argument_is_an_error_that_names_it(
    url: str, arguments: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)
    with pytest.raises(ConfigurationError, match=message) as caught:
        written(url, SALES, password=SECRET, **arguments)
    assert SECRET not in str(caught.value)


def test_a_client_that_is_not_installed_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"'Store': .*pip install 'sparkbeam\[mysql\]'"):
        written("jdbc:mysql://h/d", SALES, statement="?")


@pytest.mark.parametrize("elements", [[1], [{"a": 1}]])
def test_elements_without_a_schema_are_refused(elements: list[Any]) -> None:
    with pytest.raises(ConfigurationError, match="a table takes rows with a schema"):
        written("jdbc:sqlite:x", elements, Any)


def test_a_failing_statement_has_the_label_and_no_secret(spark: Any, tmp_path: Path) -> None:
    url = f"jdbc:sqlite:{tmp_path}/none.db"
    statement = "INSERT INTO sales VALUES (?,?,?,?,?)"
    with pytest.raises(PipelineFailed, match=r"'Store'.*no such table: sales") as caught:
        written(url, SALES, spark=spark, password=SECRET, statement=statement)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "jdbc:postgresql://a:1,[::1]/d%20b?sslmode=require&currentSchema=s",
            {
                "host": "a,::1",
                "port": "1,5432",
                "dbname": "d b",
                "sslmode": "require",
                "options": "-c TimeZone=UTC -c search_path=s",
            },
        ),
        ("jdbc:postgresql:d", {"host": "localhost", "port": "5432", "dbname": "d"}),
        ("jdbc:mysql://h:7/d?sslMode=VERIFY_IDENTITY", {"port": 7, "ssl_verify_cert": True}),
        ("jdbc:mariadb://h/d?useSSL=false", {"port": 3306, "ssl_disabled": True}),
    ],
)
def test_a_url_of_jdbc_becomes_arguments_of_the_client(url: str, expected: dict[str, Any]) -> None:
    found = database_client._arguments(url, ("me", SECRET), ())
    assert found.items() >= {**expected, "user": "me", "password": SECRET}.items()


needs_psycopg = pytest.mark.skipif(
    importlib.util.find_spec("psycopg") is None, reason="needs psycopg"
)


@needs_psycopg
def test_postgresql_merges_rows_by_a_statement(spark: Any, postgresql: Sql) -> None:
    postgresql(
        "CREATE TABLE sales (id int PRIMARY KEY, item text, price numeric, day date, at timestamp)"
    )
    statement = "INSERT INTO sales VALUES (?,?,?,?,?) ON CONFLICT (id) DO UPDATE SET item = 'new'"
    for rows in (SALES, SALES[2:]):
        account = {"username": postgresql.server.user, "password": postgresql.server.password}
        written(
            postgresql.server.url,
            rows,
            spark=spark,
            **account,
            statement=statement,
            connection_init_sqls=["SET TimeZone = 'America/New_York'", "SET TimeZone = 'UTC'"],
        )
    found = postgresql.rows("SELECT * FROM sales ORDER BY id")
    assert found[0] == ("0", "it'em ? 0", "1.50", "2020-01-02", "1970-01-01 00:00:00.5")
    assert [row[1] for row in found] == ["it'em ? 0", "it'em ? 1", "new", "new", "new"]

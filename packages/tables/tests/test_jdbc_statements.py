"""A free statement of ``WriteToJdbc``, which a Python client of the database runs."""

import datetime
import importlib.util
import re
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.io.jdbc import WriteToJdbc
from apache_beam.utils.timestamp import Timestamp
from database_servers import Sql
from in_process_batch import BatchRunner

from sparkbeam import SparkRunner
from sparkbeam.common.database_errors import without_values
from sparkbeam_tables import database_client
from sparkbeam_tables.database_client import translated
from sparkbeam_tables.database_values import as_parameter, unstorable

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
        (r"UPDATE t SET a = E'it\'s ?', b = ?", "postgresql", (r"…a = E'it\'s ?', b = %s", 1)),
        (r"SELECT e'\\', ?, LIKE'\', ?", "postgresql", (r"…e'\\', %s, LIKE'\', %s", 2)),
        ("SELECT $$it's ?$$, $a$ $$ ? $a$, ?", "postgresql", ("…$a$ $$ ? $a$, %s", 1)),
        ("SELECT a$b$, ?, c$b$, $1$ ? $1$", "postgresql", ("…c$b$, $1$ %s $1$", 2)),
        ("SELECT /* a /* ? */ ? */ ?, a ??| b", "postgresql", ("…? */ ? */ %s, a ?| b", 1)),
        ("SELECT B'1?', ?::int", "postgresql", ("…B'1?', %s::int", 1)),
        ("INSERT INTO t VALUES (?) # it's ?", "mysql", ("…VALUES (%s) # it's ?", 1)),
        ("SELECT 5--?, ? -- ?", "mariadb", ("…5--%s, %s -- ?", 2)),
        (r"""SELECT "it\"s ?", 'a''?', ?""", "mysql", (r"""…"it\"s ?", 'a''?', %s""", 1)),
        ("SELECT $$ ? $$, /*!50000 ? */ ?", "mysql", ("…$$ %s $$, /*!50000 %s */ %s", 3)),
        ("SELECT [a?], `b?`, ? /* ?", "sqlite", ("…[a?], `b?`, ? /* ?", 1)),
    ],
)
def test_only_a_mark_outside_of_texts_and_comments_is_a_parameter(
    statement: str, scheme: str, expected: tuple[str, int]
) -> None:
    found, count = translated(statement, scheme)
    assert found.endswith(expected[0].removeprefix("…"))
    assert count == expected[1]


ERRORS = [
    ('null value in column "b" of relation "t" violates not-null constraint', None),
    ('ERROR: duplicate key value violates unique constraint "t_pkey"', None),
    ('relation "t" does not exist', None),
    ('syntax error at or near "hunter2"', "syntax error at or near '…'"),
    ('invalid input syntax for type integer: "hun"ter"2"', "… for type integer: '…'"),
    (
        "Batch entry 0 INSERT INTO t VALUES (('hunter2')) was aborted: ERROR: value too long for "
        "type character varying(9)\n  Detail: Failing row contains (1, hunter2,\nhunter2).  Call",
        "ERROR: value too long for type character varying(9)",
    ),
    ("Duplicate entry 'it's hunter2' for key 'PRIMARY'", "Duplicate entry '…' for key 'PRIMARY'"),
    ("(conn=3) Data too long for column 'name' at row 1", None),
    (
        "Incorrect integer value: 'hunter2\nhunter2' for column `d`.`t`.`id` at row 1",
        "Incorrect integer value: '…' for column `d`.`t`.`id` at row 1",
    ),
    ("Field 'b' doesn't have a default value", None),
    ("Table 'd.t' doesn't exist", None),
    ("the right syntax to use near 'hunter2' at line 1", "… to use near '…' at line 1"),
    ("trying to shrink VARCHAR 'hunter2' to length 3.", "trying to shrink VARCHAR '…' to …"),
    ("in object 'dbo.t'. The duplicate key value is (1, hunter2).", "… key value is (…)."),
    ('ORA-12899: value too large for column "S"."T"."C" (actual: 7, maximum: 3)', None),
    ("x: a 'hunter2'\n\tat c('hunter2')\nCaused by: y: d 'hunter2'", "x: a '…'\n\tat c('…')\n…"),
]
"""What a database says, and what is shown; None for the same."""


@pytest.mark.parametrize(("message", "shown"), ERRORS)
def test_errors_of_databases_have_names_and_no_values(message: str, shown: str | None) -> None:
    found = without_values(message)
    assert "hunter2" not in found
    pattern = re.escape(shown or message).replace("…", ".*")
    assert re.fullmatch(pattern, found, re.DOTALL), found


@pytest.mark.parametrize(
    ("value", "scheme", "problem"),
    [
        ("a\0b", "postgresql", "has a string with the character NUL"),
        (["a", ["\0"]], "postgresql", "has a string with the character NUL"),
        ("a\0b", "mariadb", None),
        ("\ud800", "sqlite", "half of a surrogate pair"),
        (float("nan"), "mysql", "has the value nan, which mysql cannot store"),
        (Decimal("-Infinity"), "mariadb", "has the value -Infinity"),
        (Decimal("sNaN"), "mariadb", "has the value sNaN"),
        (np.float32("inf"), "mysql", "has the value inf"),
        (float("nan"), "postgresql", None),
        (float("nan"), "sqlite", "has the value nan, which SQLite stores as null"),
        (float("inf"), "sqlite", None),
        (1 << 63, "sqlite", "more than 64 bits"),
        (-(1 << 63), "sqlite", None),
        (1 << 200, "postgresql", None),
    ],
)
def test_a_value_that_a_database_does_not_store_is_known(
    value: Any, scheme: str, problem: str | None
) -> None:
    found = unstorable(as_parameter(value), scheme)
    assert (found is None) if problem is None else (problem in str(found))


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

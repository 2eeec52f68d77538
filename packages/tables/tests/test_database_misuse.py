"""Wrong tables, statements and rows of databases, in the table beside this module.

No error, no line of a log and no output has a secret or a value of a row.
"""

import logging
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import misuse
import pytest
from apache_beam.io.jdbc import ReadFromJdbc, WriteToJdbc
from misuse import Call
from test_jdbc_arguments import SECRET, Pair

from sparkbeam import SparkRunner


class Wide(NamedTuple):
    """A row with more fields than there are columns."""

    a: int
    b: int
    c: int
    d: int


class Row(NamedTuple):
    """A row that a database may refuse."""

    id: int | None
    name: Any


class Measure(NamedTuple):
    """A row with a number."""

    id: int | None
    name: str | None
    ratio: float | None


REFUSING = "id int NOT NULL UNIQUE, name varchar(50), ratio float8 CHECK (ratio >= 0)"


@misuse.table(__file__)
def test_each_error_has_names_and_no_secret(
    call: Call,
    spark: Any,
    derby: dict[str, Any],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def read(*options: str, place: dict[str, Any] = derby, **given: Any) -> Any:
        p = beam.Pipeline(SparkRunner(session=spark), argv=[*options])
        return p | "Read" >> ReadFromJdbc(**place | given)

    def write(*rows: Any, place: dict[str, Any] = derby, **given: Any) -> None:
        with beam.Pipeline(SparkRunner(session=spark)) as p:
            elements = p | beam.Create(rows).with_output_types(type(rows[0]))
            _ = elements | "Store" >> WriteToJdbc(**place | given)

    def state(*rows: Any, statement: str = "INSERT INTO t VALUES (?, ?)", **given: Any) -> None:
        """Write rows into a table of SQLite with a statement."""
        with sqlite3.connect(tmp_path / "d.db") as database:
            database.execute("CREATE TABLE t (id INTEGER NOT NULL UNIQUE, name)")
        place = {**derby, "driver_class_name": "", "jdbc_url": f"jdbc:sqlite:{tmp_path}/d.db"}
        write(*rows, place=place, statement=statement, **given)

    def server(name: str, table: str = "", **given: Any) -> dict[str, Any]:
        """Return the arguments for a table of a server."""
        sql = request.getfixturevalue(name)
        if table:
            sql("DROP TABLE IF EXISTS refusing")
            sql(f"CREATE TABLE refusing ({table})")
        return {"table_name": "refusing", **sql.server.arguments(), **given}

    caplog.set_level(logging.DEBUG)
    error = misuse.check(call, globals() | locals())
    assert error is not None
    told = capfd.readouterr()
    for text in (str(error), str(error.__cause__), caplog.text, told.out, told.err):
        assert SECRET not in text

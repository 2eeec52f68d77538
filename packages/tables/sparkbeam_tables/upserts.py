"""Upserts of rows into Delta tables and databases, by key."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

from sparkbeam.connectors.latest import quoted
from sparkbeam.connectors.upserts import merge
from sparkbeam.hooks import Upserts
from sparkbeam.plan.spark_io import WriteSpec
from sparkbeam.upstream.spark import jdbc_connection


class NullKey(Exception):
    """A row has a null in a key column."""


def into_delta(rows: Any, spec: WriteSpec) -> None:
    """Merge rows into a Delta table, or create it, in one transaction."""
    if not _is_delta(rows.sparkSession, spec.option("path")):
        writer = rows.write.format("delta").options(**dict(spec.options)).mode("error")
        writer.partitionBy(*spec.partition_by).save()
        return
    merge(rows, f"delta.{quoted(spec.option('path'))}", spec, "UPDATE SET *", "INSERT *")


def _is_delta(session: Any, path: str) -> bool:
    """Return whether the table exists; if unknown, Spark refuses to create one over it."""
    try:
        session.read.format("delta").load(path)
    except Exception:
        return False
    return True


def over_jdbc(rows: Any, spec: WriteSpec) -> None:
    """Update and insert rows in one transaction, from a temporary table.

    Uses only standard SQL, for all databases.
    """
    options = dict(spec.options)
    with jdbc_connection(rows.sparkSession, options) as (connection, quote):
        target = _Target(connection, spec.option("dbtable"), quote)
        with suppress(Exception):
            target.read_columns()
        if not target.columns:
            rows.limit(0).write.format("jdbc").options(**options).mode("append").save()
            target.read_columns()
        target.upsert(rows, options, spec.key)


class _Target:
    """A database table.

    Attributes:
        columns: identifiers of the columns, by their names in lower case.
    """

    def __init__(self, connection: Any, table: str, quote: Callable[[str], str]) -> None:
        self._connection = connection
        self._statement = connection.createStatement()
        self._table = table
        self._quote = quote
        self.columns: dict[str, str] = {}

    def read_columns(self) -> None:
        """Read the columns."""
        found = self._statement.executeQuery(f"SELECT * FROM {self._table} WHERE 1 = 0")
        about = found.getMetaData()
        names = [about.getColumnName(number + 1) for number in range(about.getColumnCount())]
        found.close()
        self.columns = {name.lower(): self._quote(name) for name in names}

    def upsert(self, rows: Any, options: Mapping[str, str], key: Sequence[str]) -> None:
        """Upsert rows; see :func:`over_jdbc`."""
        # The names differ from those of the table, so none needs a qualifier.
        token = uuid4().hex[:12]
        stage = f"sparkbeam_{token}"
        columns = {self._column(name): f"s{token}_{n}" for n, name in enumerate(rows.columns)}
        keys = {self._column(name): columns[self._column(name)] for name in key}
        self._make(stage, columns, list(keys.values()))
        try:
            written = {name: value for name, value in options.items() if name.lower() != "dbtable"}
            renamed = rows.toDF(*columns.values())
            renamed.write.format("jdbc").options(**written, dbtable=stage).mode("append").save()
            self._refuse_nulls(stage, dict(zip(keys.values(), key, strict=True)))
            self._bring(stage, columns, keys)
        finally:
            with suppress(Exception):
                self._run(f"DROP TABLE {stage}")

    def _column(self, name: str) -> str:
        return self.columns.get(name.lower()) or self._quote(name)

    def _make(self, stage: str, columns: Mapping[str, str], keys: Sequence[str]) -> None:
        """Create an empty table with the same column types."""
        names = ", ".join(f"{column} AS {new}" for column, new in columns.items())
        tried: list[Exception] = []
        for query in (
            f"CREATE TABLE {stage} AS SELECT {names} FROM {self._table} WHERE 1 = 0",
            f"CREATE TABLE {stage} AS SELECT {names} FROM {self._table} WITH NO DATA",
            f"SELECT {names} INTO {stage} FROM {self._table} WHERE 1 = 0",
        ):
            try:
                self._run(query)
            except Exception as error:
                tried.append(error)
            else:
                break
        else:
            raise tried[0]
        with suppress(Exception):  # Only an optimization.
            self._run(f"CREATE INDEX {stage}_i ON {stage} ({', '.join(keys)})")

    def _refuse_nulls(self, stage: str, keys: Mapping[str, str]) -> None:
        for column, name in keys.items():
            found = self._statement.executeQuery(
                f"SELECT COUNT(*) FROM {stage} WHERE {column} IS NULL"
            )
            found.next()
            count = found.getLong(1)
            found.close()
            if count:
                raise NullKey(
                    f"The column '{name}' of key=… is null in {count} of the rows, but a database "
                    "cannot find a row by a null key: leave these rows out, or set a value."
                )

    def _bring(self, stage: str, columns: Mapping[str, str], keys: Mapping[str, str]) -> None:
        same = " AND ".join(f"{new} = {column}" for column, new in keys.items())
        others = {column: new for column, new in columns.items() if column not in keys}
        values = ", ".join(
            f"{column} = (SELECT {new} FROM {stage} WHERE {same})" for column, new in others.items()
        )
        self._connection.setAutoCommit(False)
        try:
            if values:
                self._run(
                    f"UPDATE {self._table} SET {values} "
                    f"WHERE EXISTS (SELECT 1 FROM {stage} WHERE {same})"
                )
            self._run(
                f"INSERT INTO {self._table} ({', '.join(columns)}) "
                f"SELECT {', '.join(columns.values())} FROM {stage} "
                f"WHERE NOT EXISTS (SELECT 1 FROM {self._table} WHERE {same})"
            )
            self._connection.commit()
        except Exception:
            self._connection.rollback()
            raise
        finally:
            self._connection.setAutoCommit(True)

    def _run(self, query: str) -> None:
        self._statement.executeUpdate(query)


DELTA = Upserts(into_delta, required=("path",), merges_tables=True)
ICEBERG = Upserts(None, merges_tables=True)
DATABASES = Upserts(over_jdbc, required=("url", "dbtable"), needs_jvm=True)

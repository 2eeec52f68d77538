"""Tables and queries of databases as DataFrames with exact types.

Drivers of JDBC convert times with the time zone of their JVM, times of day to milliseconds, and
Spark decimals to at most 38 digits. Such columns are read as texts of the database.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from pyspark.sql import functions as sf
from pyspark.sql import types as st

from sparkbeam.common.arguments import listed, shown
from sparkbeam.connectors.databases import Database
from sparkbeam.connectors.latest import quoted
from sparkbeam.errors import ConfigurationError
from sparkbeam.spark.capabilities import planned_splits
from sparkbeam.upstream.spark import has_fixed_zone

TIME, DECIMAL = "time", "decimal"
"""Types of columns that come as texts."""

_FETCHED = 50_000
_DIVISIBLE = (st.NumericType, st.DateType, st.TimestampType, st.TimestampNTZType)
_WIDEST_DECIMAL = 38
_ISO_TEXTS = frozenset(["postgresql", "mysql", "mariadb"])
"""Databases whose drivers write timestamps as texts that Spark reads."""


@dataclass(frozen=True)
class DatabaseTable:
    """A table or query.

    Attributes:
        database: its database.
        source: a table, or a query in parentheses with a name.
    """

    database: Database
    source: str

    def schema(self, session: Any) -> st.StructType:
        """Return the columns in Spark's types; a timestamp without a zone is one of its own."""
        found: st.StructType = self._load(session).schema
        return found

    def frame(
        self,
        session: Any,
        *,
        fetch_size: int | None = None,
        partition_column: str | None = None,
        partitions: int | None = None,
    ) -> tuple[Any, dict[str, str]]:
        """Return the rows as a lazy DataFrame, and the types of columns that come as texts.

        Args:
            session: of the pipeline.
            fetch_size: the number of rows that the driver fetches at once.
            partition_column: the column by whose values the rows are divided; None to read them in
                one task.
            partitions: the number of parts; None for the number of cores.

        Raises:
            ConfigurationError: the rows cannot be divided by the column.
        """
        schema = self.schema(session)
        texts = dict(_texts(schema))
        by_text = self.database.scheme in _ISO_TEXTS and not has_fixed_zone(session)
        times = [field.name for field in schema if by_text and _is_local(field, texts)]
        options: dict[str, object] = {"fetchsize": fetch_size or _FETCHED}
        if texts or times:
            named = [f"{quoted(name)} STRING" for name in (*texts, *times)]
            options["customSchema"] = ", ".join(named)
        options |= self.database.initialization()
        parts = self._parts(session, schema, partition_column, partitions)
        rows = self._load(session, parts, **options)
        columns = [
            sf.col(quoted(name)).cast("timestamp_ntz").alias(name)
            if name in times
            else sf.col(quoted(name))
            for name in rows.columns
        ]
        return (rows.select(*columns) if times else rows), texts

    def _load(self, session: Any, parts: Sequence[str] = (), **more: object) -> Any:
        options = self.database.options(preferTimestampNTZ="true", **more)
        if parts:
            url = options.pop("url")
            return session.read.jdbc(url, self.source, predicates=[*parts], properties=options)
        return session.read.format("jdbc").options(**options, dbtable=self.source).load()

    def _parts(
        self, session: Any, schema: st.StructType, column: str | None, count: int | None
    ) -> list[str]:
        """Return conditions of SQL that divide the rows; none for one part."""
        if column is None:
            return []
        kinds = {field.name.lower(): field.dataType for field in schema}
        kind = kinds.get(column.strip('"`[]').lower())
        if kind is None:
            raise ConfigurationError(
                f"partition_column={shown(column)}: there is no such column, only "
                f"{listed(schema.names)}."
            )
        if not isinstance(kind, _DIVISIBLE):
            raise ConfigurationError(
                f"partition_column={shown(column)} is of type {kind.simpleString()}, and rows are "
                "divided by numbers, dates or timestamps: choose another column, or leave it out."
            )
        wanted = count or planned_splits(session) or 1
        wanted = min(wanted, self.database.max_connections or wanted)
        query = f"(SELECT MIN({column}) AS lo, MAX({column}) AS hi FROM {self.source}) bounds_of_it"
        low, high = DatabaseTable(self.database, query)._load(session).first()
        bounds = [] if low is None else [_literal(at) for at in _between(low, high, wanted)]
        return _conditions(column, list(dict.fromkeys(bounds)))


def _texts(schema: st.StructType) -> Iterator[tuple[str, str]]:
    for field in schema:
        kind = field.dataType
        if field.metadata.get("logical_time_type"):
            yield field.name, TIME
        elif isinstance(kind, st.DecimalType) and kind.precision >= _WIDEST_DECIMAL:
            yield field.name, DECIMAL


def _is_local(field: st.StructField, texts: dict[str, str]) -> bool:
    return isinstance(field.dataType, st.TimestampNTZType) and field.name not in texts


def _between(low: Any, high: Any, count: int) -> Iterator[Any]:
    """Yield the bounds between parts of equal width."""
    if isinstance(low, date):
        first, last = _naive(low), _naive(high)
        for number in range(1, count):
            yield first + (last - first) * number / count
        return
    least, most = math.floor(low), math.ceil(high)
    for number in range(1, count):
        yield least + (most - least) * number // count


def _naive(time: Any) -> Any:
    return time.replace(tzinfo=None) if isinstance(time, datetime) else time


def _literal(value: Any) -> str:
    """Return a bound in SQL, with the escapes of JDBC."""
    if isinstance(value, datetime):
        return f"{{ts '{value.replace(microsecond=0)}'}}"
    return f"{{d '{value}'}}" if isinstance(value, date) else str(value)


def _conditions(column: str, bounds: Sequence[str]) -> list[str]:
    if not bounds:
        return []
    inner = [f"{column} >= {low} AND {column} < {high}" for low, high in itertools.pairwise(bounds)]
    return [f"{column} < {bounds[0]} OR {column} IS NULL", *inner, f"{column} >= {bounds[-1]}"]

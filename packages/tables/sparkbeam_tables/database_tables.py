"""Tables and queries of databases as DataFrames with exact types.

Drivers of JDBC convert times with the time zone of their JVM, times of day to milliseconds, and
Spark decimals to at most 38 digits. What Spark's types lack, such as infinite dates and NaN in
decimals, they replace by other values, or fail without the name of the column. Such columns are
read as texts of the database, which Spark converts; a text that is no value of its type is an error
with step and column.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import functions as sf
from pyspark.sql import types as st

from sparkbeam.common.arguments import listed, shown
from sparkbeam.connectors.latest import quoted
from sparkbeam.errors import ConfigurationError
from sparkbeam.spark.capabilities import planned_splits
from sparkbeam_tables.databases import Database

TIME, DECIMAL = "time", "decimal"
"""Types of columns that come as texts."""

_FETCHED = 50_000
_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"
"""Key of the metadata of a column with the type of a text of limited length."""

_DIVISIBLE = (st.NumericType, st.DateType, st.TimestampType, st.TimestampNTZType)
_WIDEST_DECIMAL = 38
_OF_MYSQL = frozenset(["mysql", "mariadb"])
_ISO_TEXTS = _OF_MYSQL | {"postgresql"}
"""Databases whose drivers write dates and timestamps as texts that Spark reads."""

_OF_ISO = (st.DateType, st.TimestampNTZType)
_OF_POSTGRESQL = (*_OF_ISO, st.TimestampType, st.DecimalType)
"""Types that are read as texts."""

_LONG_DECIMAL = st.DecimalType(_WIDEST_DECIMAL, 0)
"""Stands for decimals that stay texts."""

_OF_MYSQL_TYPES: Mapping[str, st.DataType] = {"bit": st.LongType(), "year": st.IntegerType()}
_OF_POSTGRESQL_TYPES: Mapping[str, st.DataType] = {
    "bit": st.StringType(),
    "_time": st.ArrayType(st.StringType()),
    "_timetz": st.ArrayType(st.StringType()),
}
"""Types of columns by those of the database, where Spark's say something else."""

_FORMS: Mapping[type[st.DataType], str] = {
    # Spark's casts ignore what follows a date, and take a time of day for one of the current day.
    # Python's dates have the years 1 to 9999.
    st.DateType: r"^(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    st.TimestampType: r"^[0-9]{4,6}-[0-9]{2}-.*[0-9]$",
    st.TimestampNTZType: r"^[0-9]{4,6}-[0-9]{2}-.*[0-9]$",
    st.DecimalType: r"^-?[0-9.]+$",
    st.IntegerType: ".*",
    st.LongType: ".*",
    st.StringType: r"(?s).*",
}
"""Pattern of the texts of the values of each type that is read as a text."""


@dataclass(frozen=True)
class DatabaseTable:
    """A table or query.

    Attributes:
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
        step: str = "",
        fetch_size: int | None = None,
        partition_column: str | None = None,
        partitions: int | None = None,
    ) -> tuple[Any, dict[str, str]]:
        """Return the rows as a lazy DataFrame, and the types of columns that come as texts.

        Args:
            step: the label of the transform, for errors.
            fetch_size: the number of rows that the driver fetches at once.
            partition_column: the column by whose values the rows are divided; None to read them in
                one task.
            partitions: the number of parts; None for the number of cores.

        Raises:
            ConfigurationError: the rows cannot be divided by the column.
        """
        schema = self.schema(session)
        texts = dict(_texts(schema))
        kinds = {field.name: self._text_type(field, texts) for field in schema}
        options: dict[str, object] = {"fetchsize": fetch_size or _FETCHED}
        named = [
            f"{quoted(name)} STRING"
            for name, kind in kinds.items()
            if name in texts or (kind is not None and not isinstance(kind, st.ArrayType))
        ]
        if named:
            options["customSchema"] = ", ".join(named)
        options |= self.database.initialization()
        parts = self._parts(session, schema, partition_column, partitions)
        arrays = [name for name, kind in kinds.items() if isinstance(kind, st.ArrayType)]
        rows = self._with_texts(schema, arrays)._load(session, parts, **options)
        return rows.select(*(self._column(part, kinds[part.name], step) for part in schema)), texts

    def _with_texts(self, schema: st.StructType, arrays: Sequence[str]) -> "DatabaseTable":
        """Return the same rows with arrays of texts in the place of some of PostgreSQL's."""
        if not arrays:
            return self
        names = [f'"{part.name.replace(chr(34), chr(34) * 2)}"' for part in schema]
        chosen = [
            f"{name}::text[] AS {name}" if part.name in arrays else name
            for name, part in zip(names, schema, strict=True)
        ]
        query = f"(SELECT {', '.join(chosen)} FROM {self.source}) rows_with_texts"
        return DatabaseTable(self.database, query)

    def _text_type(self, field: st.StructField, texts: Mapping[str, str]) -> st.DataType | None:
        """Return the type of a column that is read as a text, or as texts; None for others."""
        kind, name = field.dataType, _type_name(field)
        if texts.get(field.name) == DECIMAL:
            return _LONG_DECIMAL
        if field.name in texts or isinstance(kind, st.BooleanType):
            return None
        if self.database.scheme in _OF_MYSQL:
            return _OF_MYSQL_TYPES.get(name, kind if isinstance(kind, _OF_ISO) else None)
        if self.database.scheme != "postgresql":
            return None
        if name in _OF_POSTGRESQL_TYPES:
            return _OF_POSTGRESQL_TYPES[name]
        inner = kind
        while isinstance(inner, st.ArrayType):
            inner = inner.elementType
        return kind if isinstance(inner, _OF_POSTGRESQL) else None

    def _column(self, field: st.StructField, kind: st.DataType | None, step: str) -> Any:
        """Return a column of the rows.

        Args:
            kind: the type of one that is read as a text; None for others.
        """
        value = sf.col(quoted(field.name))
        place = f"Step '{step}': the column '{field.name}' of type {_type_name(field)}"
        if kind is not None:
            value = _converted(value, kind, place)
        elif self.database.scheme in _OF_MYSQL and str(field.metadata.get(_LENGTH, "")).startswith(
            "char"
        ):
            # The server cuts blanks off, and Spark fills all texts of a fixed length up with them,
            # those of ENUM too.
            value = sf.rtrim(value)
        return value.alias(field.name)

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
        fields = {field.name.lower(): field for field in schema}
        field = fields.get(column.strip('"`[]').lower())
        if field is None:
            raise ConfigurationError(
                f"partition_column={shown(column)}: column not found. Use one of "
                f"{listed(schema.names)}."
            )
        if not isinstance(field.dataType, _DIVISIBLE):
            raise ConfigurationError(
                f"partition_column={shown(column)} is of type {_type_name(field)}, but rows can be "
                "divided only by numbers, dates or timestamps: choose another column, or omit it."
            )
        wanted = count or planned_splits(session) or 1
        wanted = min(wanted, self.database.max_connections or wanted)
        query = (
            f"(SELECT MIN({column}) AS lo, MAX({column}) AS hi FROM {self.source} "
            f"WHERE {self._is_finite(column, field)}) bounds_of_it"
        )
        found, texts = DatabaseTable(self.database, query).frame(session)
        low, high = (
            Decimal(bound) if texts and bound is not None else bound for bound in found.first()
        )
        bounds = [] if low is None else [_literal(at) for at in _between(low, high, wanted)]
        return _conditions(column, list(dict.fromkeys(bounds)))

    def _is_finite(self, column: str, field: st.StructField) -> str:
        """Return a condition that excludes infinite values, NaN, and dates without a year."""
        kind = self._text_type(field, {}) or field.dataType
        if isinstance(kind, st.IntegralType) or _type_name(field) == "oid":
            return "1 = 1"
        if isinstance(kind, st.NumericType):
            return f"{column} - {column} = 0"
        if self.database.scheme not in _ISO_TEXTS:
            return "1 = 1"
        first, last = "{ts '0001-01-01 00:00:00'}", "{ts '9999-12-31 00:00:00'}"
        return f"{column} >= {first} AND {column} < {last}"


def _texts(schema: st.StructType) -> Iterator[tuple[str, str]]:
    for field in schema:
        kind = field.dataType
        if field.metadata.get("logical_time_type"):
            yield field.name, TIME
        elif isinstance(kind, st.DecimalType) and kind.precision >= _WIDEST_DECIMAL:
            yield field.name, DECIMAL


def _type_name(field: st.StructField) -> str:
    """Return the type of a column in the database, or else in Spark."""
    name = field.metadata.get("jdbcClientType") or field.dataType.simpleString()
    return str(name).lower()


def _converted(value: Any, kind: st.DataType, place: str) -> Any:
    """Return the value of a text.

    Args:
        value: the text, or an array of texts.
        kind: the type of the value; a decimal of the greatest precision stays a text.
        place: the step and the column, for errors.
    """
    if isinstance(kind, st.ArrayType):
        return sf.transform(value, lambda item: _converted(item, kind.elementType, place))
    form = sf.when(value.rlike(_FORMS[type(kind)]), value)
    if isinstance(kind, st.IntegralType):
        # MariaDB's driver writes bits as b'101', and years as dates.
        bits = sf.conv(sf.concat(sf.lit("0"), sf.regexp_extract(value, "'([01]*)'", 1)), 2, 10)
        year = sf.regexp_extract(value, "^([0-9]+)(?:-01-01)?$", 1)
        form = sf.when(value.startswith("b'"), bits).otherwise(year)
    if kind == _LONG_DECIMAL:
        found = form
    else:
        found = form.try_cast(kind) if hasattr(form, "try_cast") else form.cast(kind)
    wrong = sf.concat(
        sf.lit(f"{place} has the value '"),
        value,
        sf.lit(
            "', which a row cannot hold: read a query that omits such rows, or that casts the "
            "column to text."
        ),
    )
    return sf.when(value.isNotNull() & found.isNull(), sf.raise_error(wrong)).otherwise(found)


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

"""Tables of Iceberg's catalogs: their configuration in a session, and appends to them."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from sparkbeam.common.arguments import listed, shown
from sparkbeam.common.sink_ids import TakesSinkId
from sparkbeam.connectors.assignments import check_assignment
from sparkbeam.connectors.commits import Commit, snapshot_options
from sparkbeam.connectors.latest import quoted
from sparkbeam.errors import ConfigurationError
from sparkbeam.plan.spark_io import Options
from sparkbeam.spark.capabilities import set_setting, setting
from sparkbeam_tables.iceberg_merges import ChangeMerge
from sparkbeam_tables.utc_times import in_utc

CATALOG = "org.apache.iceberg.spark.SparkCatalog"
"""Class of Iceberg's catalogs in Spark."""

_TRANSFORMS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
FIELD = re.compile(r"[{]([^{}]+)[}]")
"""A field of the rows in the name of a table."""

_CATALOG = re.compile(r"^spark\.sql\.catalog\.([^.]+)$")


@dataclass(frozen=True)
class IcebergCatalog:
    """A catalog.

    Attributes:
        name: its name; empty for the session's default.
        properties: those of Iceberg; none for a catalog that the session knows.
        hadoop: settings of Hadoop for it.
    """

    name: str
    properties: Options = field(default=(), repr=False)
    hadoop: Options = field(default=(), repr=False)

    def identifier(self, session: Any, table: str) -> str:
        """Return the name of a table in a session that gets the catalog if need be.

        Args:
            table: the name within the catalog, with its namespaces.

        Raises:
            ConfigurationError: the session refuses the settings of the catalog; a part of the name
                is empty.
        """
        if not all(map(str.strip, table.split("."))):
            raise ConfigurationError(
                f"table: the name {shown(table)} has an empty part: write namespace.table."
            )
        parts = [quoted(part) for part in table.split(".")]
        catalog = self._configured(session) if self.properties else self.name
        return ".".join([quoted(catalog), *parts] if catalog else parts)

    def check(self, session: Any, table: str) -> None:
        """Check that a session has the catalog of a table, or gets it.

        Raises:
            ConfigurationError: it has no catalog of this name.
        """
        first, *others = table.split(".")
        name, argument = self.name, "catalog_name"
        if not name and len(others) > 1 and "{" not in first:
            name, argument = first, f"table={shown(table)}, which begins with the catalog"
        if self.properties or not name:
            return
        known = _catalogs(session)
        if (
            known
            and name not in known
            and (self.name or session.catalog.currentCatalog() == "spark_catalog")
        ):
            raise ConfigurationError(
                f"{argument}: the session has no catalog {shown(name)}, only {listed(known)}. Set "
                "catalog_properties to add one, for example {'type': 'hadoop', 'warehouse': "
                "'/data/warehouse'}, or start the session with "
                f"--spark_conf=spark.sql.catalog.{name}={CATALOG} and the properties under it."
            )

    def _configured(self, session: Any) -> str:
        """Return the name under which the session has the catalog."""
        wanted = {"": CATALOG, **{f".{name}": value for name, value in self.properties}}
        wanted |= {f".hadoop.{name}": value for name, value in self.hadoop}
        # A catalog of this name with other properties keeps them.
        digest = hashlib.sha256(repr(sorted(wanted.items())).encode()).hexdigest()[:12]
        name = f"{re.sub(r'[^0-9A-Za-z_]', '_', self.name or 'iceberg')}_{digest}"
        for key, value in wanted.items():
            whole = f"spark.sql.catalog.{name}{key}"
            if setting(session, whole) != value and not set_setting(session, whole, value):
                raise ConfigurationError(
                    "catalog_properties: the session rejects the settings of a catalog. Leave "
                    "catalog_properties out, and set catalog_name to the name of a catalog of the "
                    "session."
                )
        return name


def _catalogs(session: Any) -> list[str]:
    """Return the names of the catalogs of a session; none if it does not tell them."""
    try:
        found = {row[0] for row in session.sql("SHOW CATALOGS").collect()}
        settings = [row[0] for row in session.sql("SET").collect()]
    except PySparkException:
        return []
    return sorted(found.union(*map(_CATALOG.findall, settings)))


@dataclass(frozen=True)
class _Destination:
    """A table and its rows of a micro-batch.

    Attributes:
        name: the quoted name in the session.
    """

    table: str
    name: str
    rows: Any
    exists: bool


@dataclass(frozen=True)
class WriteMicroBatch(TakesSinkId):
    """Function that writes micro-batches to tables, each once.

    All tables of a micro-batch are determined, and their rows checked, before one is written.

    Attributes:
        table: their name; columns in braces stand for their values.
        hidden: columns for the name that are not written.
        texts: columns with decimals as texts, with their types in a table that is created.
        partition_fields: partition transforms of a table that is created.
        sort_fields: the sort order of a table that is created.
        snapshot_properties: of each snapshot.
        merge: how changes of rows are merged; None to append the rows.
        sink_id: id of the sink; empty in batch.
    """

    catalog: IcebergCatalog
    table: str
    hidden: tuple[str, ...] = ()
    texts: tuple[tuple[str, st.DataType], ...] = ()
    partition_fields: tuple[str, ...] = ()
    sort_fields: tuple[str, ...] = ()
    properties: Options = ()
    options: Options = ()
    snapshot_properties: Options = ()
    merge: ChangeMerge | None = None
    sink_id: str = ""

    def __post_init__(self) -> None:
        """Raise a ConfigurationError for a partition transform or a sort order that is none."""
        for text in self.partition_fields:
            _transform(text)
        for text in self.sort_fields:
            _sort_field(text)

    def with_sink_id(self, sink_id: str) -> "WriteMicroBatch":
        return replace(self, sink_id=sink_id)

    def __call__(self, rows: Any, batch_id: int) -> None:
        """Write the rows of a micro-batch.

        Raises:
            ConfigurationError: a table lacks a field of the rows, or a name has an empty part.
        """
        found = [*self._destinations(rows)]
        commit = Commit(self.sink_id, batch_id) if self.sink_id else None
        session = rows.sparkSession
        ahead = [
            each
            for each in found
            if not (commit and each.exists and commit.is_in(session, each.name))
        ]
        # A table that exists takes all of its rows or none.
        if len(found) > 1 or not all(each.exists for each in ahead):
            self._check(ahead)
        for destination in ahead:
            self._write(destination, commit)

    def _destinations(self, rows: Any) -> Iterator[_Destination]:
        session = rows.sparkSession
        texts = FIELD.split(self.table)
        parts = [
            _text_of(text) if number % 2 else sf.lit(text) for number, text in enumerate(texts)
        ]
        name = sf.concat(*parts)
        names = [row[0] for row in rows.select(name).distinct().collect()] if parts[1:] else texts
        for table in sorted(names):
            part = rows.where(name == sf.lit(table)).drop(*self.hidden) if parts[1:] else rows
            quoted_name = self.catalog.identifier(session, table)
            exists = session.catalog.tableExists(quoted_name)
            yield _Destination(table, quoted_name, part, exists)

    def _check(self, destinations: Sequence[_Destination]) -> None:
        """Convert all rows without writing them.

        Raises:
            ConfigurationError: a table lacks a field of the rows.
        """
        checked = []
        for each in destinations:
            data = self._data(each.rows)
            schema = each.rows.sparkSession.table(each.name).schema if each.exists else None
            schema = schema or _created(data.schema, dict(self.texts))
            fields = [st.StructField(part.name, part.dataType) for part in schema]
            columns = self._fitted(data, schema, each.table)
            checked.append(data.select(*columns).to(st.StructType(fields)))
            if self.merge is not None:
                checked.append(self.merge.checked(each.rows, data.columns))
        for rows in checked:
            rows.write.format("noop").mode("overwrite").save()

    def _data(self, rows: Any) -> Any:
        return rows if self.merge is None else self.merge.data(rows)

    def _write(self, to: _Destination, commit: Commit | None) -> None:
        session = to.rows.sparkSession
        data = self._data(to.rows)
        if not to.exists:
            self._create(session, to.name, data.schema)
        columns = self._fitted(data, session.table(to.name).schema, to.table)
        properties = dict(self.snapshot_properties) | (commit.properties if commit else {})
        if self.merge is not None:
            self.merge(to.rows, columns, to.name, properties)
            return
        writer = to.rows.select(*columns).writeTo(to.name)
        for option, value in (dict(self.options) | snapshot_options(properties)).items():
            writer = writer.option(option, value)
        writer.append()

    def _create(self, session: Any, name: str, schema: st.StructType) -> None:
        namespace = name.rpartition(".")[0]
        if "." in namespace:
            session.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
        columns = [_definition(part) for part in _created(schema, dict(self.texts))]
        query = f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(columns)}) USING iceberg"
        if self.partition_fields:
            query += f" PARTITIONED BY ({', '.join(map(_transform, self.partition_fields))})"
        if self.properties:
            given = [f"{_literal(key)} = {_literal(value)}" for key, value in self.properties]
            query += f" TBLPROPERTIES ({', '.join(given)})"
        session.sql(query)
        if self.sort_fields:
            order = ", ".join(map(_sort_field, self.sort_fields))
            session.sql(f"ALTER TABLE {name} WRITE LOCALLY ORDERED BY {order}")

    def _fitted(self, rows: Any, schema: st.StructType, table: str) -> list[Any]:
        """Return the columns of a table; null for those that the rows lack."""
        unknown = [column for column in rows.columns if column not in schema.names]
        if unknown:
            raise ConfigurationError(
                f"The table {shown(table)} has no column {listed(unknown)}, only "
                f"{listed(schema.names)}: leave it out with keep or drop, or add it with ALTER "
                "TABLE."
            )
        given = {part.name: part for part in rows.schema}
        check_assignment(((part, schema[name]) for name, part in given.items()), table)
        with_texts = dict(self.texts)
        return [
            _value(part, given.get(part.name), table, has_texts=part.name in with_texts).alias(
                part.name
            )
            for part in schema
        ]


def _text_of(path: str) -> Any:
    """Return the text of a column, or of a field of it, in the name of a table, as Beam has it."""
    return sf.coalesce(sf.col(".".join(map(quoted, path.split(".")))).cast("string"), sf.lit(""))


def _created(schema: st.StructType, texts: Mapping[str, st.DataType]) -> st.StructType:
    """Return the columns of a table that is created."""
    fields = [
        st.StructField(
            part.name,
            _with_nulls(texts[part.name]) if part.name in texts else part.dataType,
            part.nullable,
        )
        for part in schema
    ]
    return st.StructType(fields)


def _with_nulls(kind: st.DataType) -> st.DataType:
    """Return a type whose inner values may be null, as conversions make them."""
    if isinstance(kind, st.ArrayType):
        return st.ArrayType(_with_nulls(kind.elementType))
    if isinstance(kind, st.MapType):
        return st.MapType(_with_nulls(kind.keyType), _with_nulls(kind.valueType))
    if isinstance(kind, st.StructType):
        parts = [st.StructField(part.name, _with_nulls(part.dataType)) for part in kind]
        return st.StructType(parts)
    return kind


def _definition(part: st.StructField) -> str:
    """Return a column for CREATE TABLE."""
    return f"{quoted(part.name)} {_ddl(part.dataType)}{'' if part.nullable else ' NOT NULL'}"


def _ddl(kind: st.DataType) -> str:
    """Return a type in SQL, with quoted names."""
    if isinstance(kind, st.ArrayType):
        return f"array<{_ddl(kind.elementType)}>"
    if isinstance(kind, st.MapType):
        return f"map<{_ddl(kind.keyType)}, {_ddl(kind.valueType)}>"
    if isinstance(kind, st.StructType):
        parts = [f"{quoted(part.name)}: {_ddl(part.dataType)}" for part in kind]
        return f"struct<{', '.join(parts)}>"
    return kind.simpleString()


def _value(
    part: st.StructField, given: st.StructField | None, table: str, *, has_texts: bool
) -> Any:
    """Return a column of a table.

    Args:
        given: that of the rows; None for none.
    """
    if given is None:
        return sf.lit(None).cast(part.dataType)
    value = sf.col(quoted(part.name))
    if has_texts:
        value = _with_decimals(value, given.dataType, part.dataType, f"{part.name} of {table}")
    if not part.nullable and given.nullable:
        wrong = f"The column {part.name} of {table} does not allow nulls, but a row has one."
        value = sf.when(value.isNull(), sf.raise_error(sf.lit(wrong))).otherwise(value)
    local = isinstance(part.dataType, st.TimestampNTZType)
    return in_utc(value) if local and isinstance(given.dataType, st.TimestampType) else value


def _with_decimals(value: Any, given: st.DataType, kind: st.DataType, place: str) -> Any:
    """Return a value with decimals in the place of their texts, at any depth.

    Args:
        place: the column and the table, for errors.
    """
    if isinstance(given, st.StringType) and isinstance(kind, st.DecimalType):
        return _decimal(value, kind, place)
    if isinstance(given, st.ArrayType) and isinstance(kind, st.ArrayType):
        inner = (given.elementType, kind.elementType)
        return sf.transform(value, lambda item: _with_decimals(item, *inner, place))
    if isinstance(given, st.MapType) and isinstance(kind, st.MapType):
        keys, values = (given.keyType, kind.keyType), (given.valueType, kind.valueType)
        value = sf.transform_keys(value, lambda key, _: _with_decimals(key, *keys, place))
        return sf.transform_values(value, lambda _, item: _with_decimals(item, *values, place))
    if isinstance(given, st.StructType) and isinstance(kind, st.StructType):
        known = {part.name: part.dataType for part in kind}
        parts = [
            _with_decimals(
                value[part.name], part.dataType, known.get(part.name, part.dataType), place
            ).alias(part.name)
            for part in given
        ]
        return sf.when(value.isNotNull(), sf.struct(*parts))
    return value


def _decimal(value: Any, kind: st.DecimalType, place: str) -> Any:
    """Return the decimal of a text, which it must equal."""
    number = value.try_cast(kind) if hasattr(value, "try_cast") else value.cast(kind)
    fraction = sf.regexp_extract(value, r"[.]([0-9]*?)0*$", 1)
    fits = number.isNotNull() & (sf.length(fraction) <= kind.scale)
    wrong = sf.concat(
        sf.lit(f"The column {place} of type {kind.simpleString()} cannot hold "),
        value,
        sf.lit(" exactly: round the field, or create the table with another decimal type."),
    )
    return sf.when(value.isNotNull() & ~fits, sf.raise_error(wrong)).otherwise(number)


def _transform(text: str, argument: str = "partition_fields") -> str:
    """Return a partition transform in Spark's SQL.

    Raises:
        ConfigurationError: it is none.
    """
    found = re.fullmatch(r"\s*(?:(\w+)\()?\s*([\w.]+)\s*(?:,\s*(\d+)\s*)?(\))?\s*", text)
    kind, name, number, end = found.groups() if found else (None, "", None, None)
    column = ".".join(map(quoted, name.split(".")))
    if found and not kind and not number and not end:
        return column
    if kind in _TRANSFORMS and not number and end:
        return f"{_TRANSFORMS[kind]}({column})"
    if kind in ("bucket", "truncate") and number and end:
        return f"{kind}({number}, {column})"
    raise ConfigurationError(
        f"{argument}: {shown(text)} is not a partition transform. Use 'name', "
        "'year(name)', 'month(name)', 'day(name)', 'hour(name)', 'bucket(name, 4)' or "
        "'truncate(name, 4)'."
    )


_SORT = re.compile(r"(.+?)(?:\s+(asc|desc))?(?:\s+(nulls\s+(?:first|last)))?", re.IGNORECASE)


def _sort_field(text: str) -> str:
    """Return a part of a sort order in Iceberg's SQL.

    Raises:
        ConfigurationError: it is none.
    """
    found = _SORT.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError("sort_fields has an empty string: use for example 'name desc'.")
    term, direction, nulls = found.groups()
    return " ".join(filter(None, [_transform(term, "sort_fields"), direction, nulls]))


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"

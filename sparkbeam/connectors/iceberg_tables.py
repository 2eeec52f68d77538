"""Tables of Iceberg's catalogs: their configuration in a session, and appends to them."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import functions as sf
from pyspark.sql import types as st

from sparkbeam.common.arguments import listed, shown
from sparkbeam.connectors.assignments import check_assignment
from sparkbeam.connectors.commits import PROPERTY, Commit
from sparkbeam.connectors.iceberg_merges import ChangeMerge
from sparkbeam.connectors.latest import quoted
from sparkbeam.connectors.utc_times import in_utc
from sparkbeam.errors import ConfigurationError
from sparkbeam.plan.spark_io import Options
from sparkbeam.spark.capabilities import set_setting, setting

CATALOG = "org.apache.iceberg.spark.SparkCatalog"
"""Class of Iceberg's catalogs in Spark."""

_TRANSFORMS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
_FIELD = re.compile(r"[{]([^{}]+)[}]")


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
            session: the session.
            table: the name within the catalog, with its namespaces.

        Raises:
            ConfigurationError: the session refuses the settings of the catalog.
        """
        parts = [quoted(part) for part in table.split(".")]
        catalog = self._configured(session) if self.properties else self.name
        return ".".join([quoted(catalog), *parts] if catalog else parts)

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
                    "catalog_properties: the session refuses the settings of a catalog. Leave "
                    "catalog_properties out, and give the name of a catalog that it knows as "
                    "catalog_name."
                )
        return name


@dataclass(frozen=True)
class WriteMicroBatch:
    """Function that writes micro-batches to tables, each once.

    Attributes:
        catalog: of the tables.
        table: their name; fields in braces stand for their values.
        texts: columns that are texts of decimals.
        partition_fields: partition transforms of a table that is created.
        sort_fields: the sort order of a table that is created.
        properties: of a table that is created.
        options: of the write.
        snapshot_properties: of each snapshot.
        merge: how changes of rows are merged; None to append the rows.
        sink: id of the sink and its checkpoint; empty in batch.
    """

    catalog: IcebergCatalog
    table: str
    texts: frozenset[str] = frozenset()
    partition_fields: tuple[str, ...] = ()
    sort_fields: tuple[str, ...] = ()
    properties: Options = ()
    options: Options = ()
    snapshot_properties: Options = ()
    merge: ChangeMerge | None = None
    sink: str = ""

    def of_run(self, run: str) -> "WriteMicroBatch":
        """Return the function for a sink of a streaming query."""
        return replace(self, sink=run)

    def __call__(self, rows: Any, batch_id: int) -> None:
        """Write the rows of a micro-batch.

        Raises:
            ConfigurationError: a table lacks a field of the rows.
        """
        for name, part in self._tables(rows):
            self._write(name, part, batch_id)

    def _tables(self, rows: Any) -> Iterator[tuple[str, Any]]:
        """Yield the tables and their rows."""
        if not _FIELD.search(self.table):
            yield self.table, rows
            return
        texts = _FIELD.split(self.table)
        parts = [
            _field(rows, text) if number % 2 else sf.lit(text) for number, text in enumerate(texts)
        ]
        name = sf.concat(*parts)
        for (found,) in rows.select(name).distinct().collect():
            yield found, rows.where(name == sf.lit(found))

    def _write(self, table: str, rows: Any, batch_id: int) -> None:
        session = rows.sparkSession
        name = self.catalog.identifier(session, table)
        data = rows if self.merge is None else self.merge.data(rows)
        if not session.catalog.tableExists(name):
            self._create(session, name, data.schema)
        commit = Commit(self.sink, batch_id)
        if self.sink and commit.is_in(session, name):
            return
        columns = _fitted(data, session.table(name).schema, self.texts, table)
        properties = dict(self.snapshot_properties)
        if self.sink:
            properties |= commit.properties
        if self.merge is not None:
            self.merge(rows, columns, name, properties)
            return
        writer = rows.select(*columns).writeTo(name)
        for option, value in self.options:
            writer = writer.option(option, value)
        for key, value in properties.items():
            writer = writer.option(f"{PROPERTY}{key}", value)
        writer.append()

    def _create(self, session: Any, name: str, schema: st.StructType) -> None:
        namespace = name.rpartition(".")[0]
        if "." in namespace:
            session.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
        columns = [_definition(part, self.texts) for part in schema]
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


def _field(rows: Any, path: str) -> Any:
    """Return the text of a field for the name of a table."""
    names = path.split(".")
    if names[0] not in rows.columns:
        raise ConfigurationError(
            f"table has the field {shown(path)}, and the rows have only {listed(rows.columns)}."
        )
    return sf.col(".".join(map(quoted, names))).cast("string")


def _definition(part: st.StructField, texts: frozenset[str]) -> str:
    """Return a column for CREATE TABLE."""
    kind = "decimal(38,18)" if part.name in texts else part.dataType.simpleString()
    return f"{quoted(part.name)} {kind}{'' if part.nullable else ' NOT NULL'}"


def _fitted(rows: Any, table: st.StructType, texts: frozenset[str], name: str) -> list[Any]:
    """Return the columns of a table; null for those that the rows lack."""
    unknown = [column for column in rows.columns if column not in table.names]
    if unknown:
        raise ConfigurationError(
            f"The table {shown(name)} has no column {listed(unknown)}, only {listed(table.names)}: "
            "leave it out with keep or drop, or add it with ALTER TABLE."
        )
    check_assignment(((part, table[part.name]) for part in rows.schema), name)
    kinds = {part.name: part.dataType for part in rows.schema}
    return [_value(part, kinds, texts).alias(part.name) for part in table]


def _value(part: st.StructField, kinds: Mapping[str, st.DataType], texts: frozenset[str]) -> Any:
    if part.name not in kinds:
        return sf.lit(None).cast(part.dataType)
    value = sf.col(quoted(part.name))
    if part.name in texts:
        wrong = sf.concat(
            sf.lit(f"{part.name} does not fit {part.dataType.simpleString()}: "), value
        )
        number = value.try_cast(part.dataType) if hasattr(value, "try_cast") else None
        number = value.cast(part.dataType) if number is None else number
        return sf.when(value.isNotNull() & number.isNull(), sf.raise_error(wrong)).otherwise(number)
    local = isinstance(part.dataType, st.TimestampNTZType)
    return in_utc(value) if local and isinstance(kinds[part.name], st.TimestampType) else value


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
        f"{argument}: {shown(text)} is not a partition transform. There are 'name', "
        "'year(name)', 'month(name)', 'day(name)', 'hour(name)', 'bucket(name, 4)' and "
        "'truncate(name, 4)'."
    )


def check_transforms(fields: tuple[str, ...]) -> tuple[str, ...]:
    """Check partition transforms.

    Raises:
        ConfigurationError: one is none of Iceberg's.
    """
    for text in fields:
        _transform(text)
    return fields


def check_sort_fields(fields: tuple[str, ...]) -> tuple[str, ...]:
    """Check a sort order.

    Raises:
        ConfigurationError: a part is none of a sort order.
    """
    for text in fields:
        _sort_field(text)
    return fields


_SORT = re.compile(r"(.+?)(?:\s+(asc|desc))?(?:\s+(nulls\s+(?:first|last)))?", re.IGNORECASE)


def _sort_field(text: str) -> str:
    """Return a part of a sort order in Iceberg's SQL.

    Raises:
        ConfigurationError: it is none.
    """
    found = _SORT.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError("sort_fields has an empty text: name a field, as 'name desc'.")
    term, direction, nulls = found.groups()
    return " ".join(filter(None, [_transform(term, "sort_fields"), direction, nulls]))


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"

"""``managed.Read`` and ``managed.Write`` of Iceberg tables."""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection, PDone
from pyspark.sql import types as st

from sparkbeam.common import arguments
from sparkbeam.common.arguments import listed, one_of, shown
from sparkbeam.common.display_text import shortened
from sparkbeam.common.step_errors import errors_naming
from sparkbeam.connectors.latest import quoted
from sparkbeam.connectors.schemas import row_constraint, spark_field, without_none
from sparkbeam.errors import ConfigurationError
from sparkbeam.hooks.managed_config import ManagedConfig
from sparkbeam.io.write import to_function
from sparkbeam.plan.labels import applied_label
from sparkbeam.spark.capabilities import setting
from sparkbeam_tables.catalog_reads import ReadTable, TableFormat, TableRows
from sparkbeam_tables.database_values import ChosenFields
from sparkbeam_tables.iceberg_merges import KINDS, ChangeMerge
from sparkbeam_tables.iceberg_tables import CATALOG, FIELD, IcebergCatalog, WriteMicroBatch
from sparkbeam_tables.jdbc import kinds_of

_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_SETTING = "spark.sql.extensions"
ICEBERG = TableFormat("iceberg", CATALOG, {_SETTING: _EXTENSIONS})

_APPEND, _MERGE = "append", "merge-on-read"
_SEQUENCE = "_commit_snapshot_sequence_number"
_OF_MERGES = (
    "sequence_number_column",
    "change_type_column",
    "change_type_map",
    "upsert",
    "equality_columns",
)

_DECIMALS = st.DecimalType(38, 18)
"""Type of decimals in a table that is created."""

_IN_NAMES = (st.StringType, st.NumericType, st.BooleanType, st.DateType)
_HIDDEN = "sparkbeam_field_"

_HINTS = (
    "triggering_frequency_seconds",
    "direct_write_byte_limit",
    "autosharding",
    "use_side_input_table_cache",
    "table_cache_refresh_interval_seconds",
    "maximum_table_cache_size",
    "table_cache_polling_buckets",
    "num_shards",
    "shards_per_partition",
    "allowed_lateness_seconds",
    "sink_id",
    "token_heartbeat_seconds",
    "sorter_memory_mb",
)


def read(system: str, config: ManagedConfig) -> "beam.PTransform[Any, Any]":
    """Return a read of a table, of some of its columns and rows."""
    table, catalog, chosen = config.required("table"), catalog_of(config), Selection.of(config)
    config.finish()

    def rows(session: Any) -> TableRows:
        catalog.check(session, table)
        found = session.table(catalog.identifier(session, table))
        names = chosen.names(found.columns)
        return TableRows(chosen.filtered(found).select(*map(quoted, names)))

    return ReadTable(ICEBERG, f"the Iceberg table {shown(table)}", rows, options=catalog.properties)


@dataclass(frozen=True)
class Selection:
    """The part of a table that is read.

    Attributes:
        keep: the columns to read, if any are given.
        drop: otherwise all but these.
        condition: of the rows, in Spark's SQL; empty for all.
    """

    keep: tuple[str, ...]
    drop: tuple[str, ...]
    condition: str

    @classmethod
    def of(cls, config: ManagedConfig) -> "Selection":
        """Return the selection of a configuration.

        Raises:
            ConfigurationError: it has both keep and drop.
        """
        found = cls(config.names("keep"), config.names("drop"), config.text("filter"))
        if found.keep and found.drop:
            raise ConfigurationError(f"{config.name}: give either keep or drop.")
        return found

    def names(self, columns: Sequence[str], hidden: Sequence[str] = ()) -> list[str]:
        """Return the names of the columns to read.

        Args:
            hidden: further ones, which are read only if they are kept.

        Raises:
            ConfigurationError: a column to keep or to drop does not exist.
        """
        known = (*columns, *hidden)
        unknown = [name for name in (*self.keep, *self.drop) if name not in known]
        if unknown:
            raise ConfigurationError(
                f"keep or drop has {listed(unknown)}, but the table has {listed(known)}."
            )
        return [*self.keep] or [name for name in columns if name not in self.drop]

    def filtered(self, frame: Any) -> Any:
        """Return the rows that fulfil the condition."""
        return frame.where(self.condition) if self.condition else frame


def write(system: str, config: ManagedConfig) -> "beam.PTransform[Any, Any]":
    """Return a write that appends to a table, or to several, or merges changes into them."""
    table, catalog = config.required("table"), catalog_of(config)
    keep, drop, only = config.names("keep"), config.names("drop"), config.text("only")
    if sum(map(bool, (keep, drop, only))) > 1:
        raise ConfigurationError(f"{config.name}: give only one of keep, drop and only.")
    mode = config.text("distribution_mode")
    written = WriteMicroBatch(
        catalog,
        table,
        partition_fields=config.names("partition_fields"),
        sort_fields=config.names("sort_fields"),
        properties=tuple(config.texts("table_properties").items()),
        options=(("distribution-mode", mode),) if mode else (),
        snapshot_properties=tuple(config.texts("snapshot_properties").items()),
        merge=_merge(config),
    )
    for name, remedy in (
        ("write_properties", "Set them on the table, with table_properties"),
        ("error_handling", "Filter the rows before the write"),
    ):
        if config.has(name):
            raise ConfigurationError(
                f"{config.name}: {name} is not supported by Spark's writes. {remedy}."
            )
    config.ignore(*_HINTS)
    config.finish()
    return WriteToIceberg(written, keep, drop, only)


def _merge(config: ManagedConfig) -> ChangeMerge | None:
    """Return how changes are merged; None for a write that appends.

    Raises:
        ConfigurationError: the mode is none, or an argument is for another one.
    """
    mode = one_of("mode", config.text("mode") or _APPEND, (_APPEND, _MERGE))
    if mode == _APPEND:
        given = [name for name in _OF_MERGES if config.has(name)]
        if given:
            raise ConfigurationError(
                f"{config.name}: {given[0]} needs mode={shown(_MERGE)}, but the mode is "
                f"{shown(_APPEND)}."
            )
        return None
    kinds = tuple(config.texts("change_type_map").items())
    for _, kind in kinds:
        one_of("change_type_map", kind, KINDS)
    return ChangeMerge(
        config.names("equality_columns"),
        config.text("sequence_number_column") or _SEQUENCE,
        config.text("change_type_column"),
        kinds,
        config.flag("upsert"),
    )


def catalog_of(config: ManagedConfig) -> IcebergCatalog:
    """Return the catalog that a configuration describes."""
    return IcebergCatalog(
        config.text("catalog_name"),
        tuple(sorted(config.texts("catalog_properties").items())),
        tuple(sorted(config.texts("config_properties").items())),
    )


class WriteToIceberg(beam.PTransform[PCollection[Any], PDone]):
    """Writes rows to tables.

    Args:
        write: writes a micro-batch.
        keep: the fields of a row that are written, if any are given.
        drop: otherwise all but these.
        only: otherwise the fields of this one, if any.
    """

    def __init__(
        self, write: WriteMicroBatch, keep: tuple[str, ...], drop: tuple[str, ...], only: str
    ) -> None:
        super().__init__()
        self._write = write
        self._keep, self._drop, self._only = keep, drop, only

    def expand(self, rows: PCollection[Any]) -> PDone:
        with errors_naming(applied_label(rows.pipeline)):
            self._check(ICEBERG.session(rows.pipeline))
            whole = kinds_of(rows.element_type)
            kinds = self._chosen(whole)
            columns = [_column(name, kind) for name, kind in kinds.items()]
            table, hidden = _destination(self._write.table, whole, () if self._only else kinds)
        texts = tuple((part.name, kind) for part, kind in columns if part.dataType != kind)
        schema = [part for part, _ in columns] + [part for part, _ in hidden]
        if texts or hidden or self._only or list(kinds) != list(whole):
            places = tuple((part.name, tuple(path)) for part, path in hidden)
            chosen = ChosenFields(tuple(kinds), dict(texts), self._only, places)
            rows = rows | "Fields" >> beam.Map(chosen)
        write = replace(
            self._write, table=table, hidden=tuple(part.name for part, _ in hidden), texts=texts
        )
        properties = self._write.catalog.properties
        return to_function(rows, st.StructType(schema), write, "iceberg", properties)

    def _check(self, session: Any) -> None:
        self._write.catalog.check(session, self._write.table)
        if self._write.sort_fields and _EXTENSIONS not in (setting(session, _SETTING) or ""):
            raise ConfigurationError(
                "sort_fields needs Iceberg's SQL, which the session lacks: start the session with "
                f"--spark_conf={_SETTING}={_EXTENSIONS}."
            )

    def _chosen(self, kinds: dict[str, Any]) -> dict[str, Any]:
        """Return the types of the fields to write."""
        for name in (*self._keep, *self._drop, *filter(None, [self._only])):
            if name not in kinds:
                raise ConfigurationError(
                    f"keep, drop or only has {shown(name)}, but the rows have {listed(kinds)}."
                )
        if self._only:
            return kinds_of(without_none(kinds[self._only])[0])
        names = self._keep or [name for name in kinds if name not in self._drop]
        return {name: kinds[name] for name in names}


def _column(name: str, kind: Any) -> tuple[st.StructField, st.DataType]:
    """Return the column of a field, and its type in a table; in the former decimals are texts."""
    found = spark_field(name, kind, st.StringType())
    in_table = spark_field(name, kind, _DECIMALS)
    if found is None or in_table is None:
        raise ConfigurationError(
            f"The field {arguments.shown(name)} is of type {shortened(str(kind), 60)}, but "
            "tables have no column of that type: convert it, for example to a string."
        )
    return found, in_table.dataType


def _destination(
    table: str, kinds: Mapping[str, Any], written: Container[str]
) -> tuple[str, list[tuple[st.StructField, list[str]]]]:
    """Return the name of a table, with columns in braces, and those of them that are not written.

    Args:
        table: the name, with fields of the rows in braces.
        kinds: the types of the fields of the rows.

    Raises:
        ConfigurationError: a field does not exist, or has no text for a name.
    """
    hidden: list[tuple[st.StructField, list[str]]] = []

    def column(match: re.Match[str]) -> str:
        path = match[1].split(".")
        kind = _text_type(match[1], path, kinds)
        if path[0] in written:
            return match[0]
        hidden.append((st.StructField(f"{_HIDDEN}{len(hidden)}", kind), path))
        return f"{{{hidden[-1][0].name}}}"

    return FIELD.sub(column, table), hidden


def _text_type(field: str, path: Sequence[str], kinds: Mapping[str, Any]) -> st.DataType:
    """Return the type of a field that is part of the name of a table."""
    for depth, name in enumerate(path):
        if name not in kinds:
            of = f"the field {shown('.'.join(path[:depth]))} has" if depth else "the rows have"
            there = f"only {listed(kinds)}" if kinds else "because it is not a row"
            raise ConfigurationError(
                f"table has the field {shown(field)}, but {of} no {shown(name)}, {there}."
            )
        kind = without_none(kinds[name])[0]
        if depth < len(path) - 1:
            kinds = dict(getattr(row_constraint(kind), "_fields", ()))
    found = spark_field(path[-1], kind, st.StringType())
    if found is None or not isinstance(found.dataType, _IN_NAMES):
        raise ConfigurationError(
            f"table has the field {shown(field)}, which is of type {shortened(str(kind), 60)}: a "
            "table name accepts strings, numbers, booleans and dates. Convert it to a string."
        )
    return found.dataType

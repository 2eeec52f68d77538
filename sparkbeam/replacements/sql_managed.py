"""External tables of SQL that are those of Iceberg and of Delta."""

import functools
from collections.abc import Mapping
from typing import Any

import apache_beam as beam
from apache_beam.pipeline import Pipeline
from apache_beam.pvalue import PCollection
from pyspark.sql.types import StructType

from sparkbeam.common.arguments import shown
from sparkbeam.errors import ConfigurationError
from sparkbeam.io.write import WriteToSpark
from sparkbeam.replacements import delta, iceberg
from sparkbeam.replacements.calcite_ddl import ExternalTable
from sparkbeam.replacements.managed_config import ManagedConfig
from sparkbeam.replacements.sql_frames import columns_of
from sparkbeam.replacements.sql_rows import result_type, stored_types
from sparkbeam.replacements.table_reads import ReadTable

_CATALOG = ("catalog_name", "catalog_properties", "config_properties")
_OF_WRITES = (
    "sort_fields",
    "table_properties",
    "snapshot_properties",
    "distribution_mode",
    "triggering_frequency_seconds",
)
"""Properties of a table of Iceberg that have no meaning in a read."""

_HADOOP = "beam.catalog.hadoop."
"""Begin of the names of properties of a catalog that are settings of Hadoop."""

_FORMATS = {"delta": delta.DELTA, "iceberg": iceberg.ICEBERG}


def prepare(table: ExternalTable, pipeline: Pipeline) -> None:
    """Give the session of a pipeline what a table needs of it, before it is created.

    Raises:
        ConfigurationError: there is no package of the format for this version of Spark.
    """
    if table.type in _FORMATS:
        _FORMATS[table.type].session(pipeline)


def read_iceberg(table: ExternalTable, config: ManagedConfig) -> ReadTable:
    """Return a read of a table of Iceberg."""
    config.ignore(*_CATALOG, *_OF_WRITES)
    config.finish()
    given = {key: value for key, value in iceberg_config(table).items() if key not in _OF_WRITES}
    return _declared(table, iceberg.read("iceberg", _config(table, given)))


def write_iceberg(table: ExternalTable) -> "beam.PTransform[Any, Any]":
    """Return a write that appends to a table of Iceberg, and creates a missing one."""
    given = iceberg_config(table)
    if table.partitions:
        given["partition_fields"] = [*table.partitions]
    return iceberg.write("iceberg", _config(table, given))


def _config(table: ExternalTable, given: Mapping[str, Any]) -> ManagedConfig:
    return ManagedConfig(f"The table {shown(table.name)} of ddl", given)


def iceberg_config(table: ExternalTable) -> dict[str, Any]:
    """Return the configuration of a managed transform for a table of Iceberg.

    Raises:
        ConfigurationError: it has no namespace, or two catalogs.
    """
    name = table.location or ".".join(filter(None, [table.database, table.name]))
    if "." not in name:
        raise ConfigurationError(
            f"The table {shown(table.name)} of ddl needs the name of a table of Iceberg with its "
            "namespace: give LOCATION 'database.table', or USE DATABASE before it."
        )
    if table.catalog is None:
        return {**table.properties, "table": name}
    if table.properties.keys() & {*_CATALOG}:
        raise ConfigurationError(
            f"The table {shown(table.name)} of ddl has a catalog in TBLPROPERTIES, and the one of "
            "USE CATALOG: give one of them."
        )
    hadoop = {
        key.removeprefix(_HADOOP): value
        for key, value in table.catalog.properties.items()
        if key.startswith(_HADOOP)
    }
    others = {k: v for k, v in table.catalog.properties.items() if not k.startswith(_HADOOP)}
    return {
        **table.properties,
        "table": name,
        "catalog_name": table.catalog.name,
        "catalog_properties": others,
        "config_properties": hadoop,
    }


def read_delta(table: ExternalTable, config: ManagedConfig) -> ReadTable:
    """Return a read of a table of Delta."""
    given = {**table.properties, "table": table.required_location()}
    return _declared(table, delta.read("delta", _config(table, given)))


def _declared(table: ExternalTable, read: "beam.PTransform[Any, Any]") -> ReadTable:
    assert isinstance(read, ReadTable)
    return read.selecting(functools.partial(columns_of, table), result_type)


def write_delta(table: ExternalTable, config: ManagedConfig) -> "beam.PTransform[Any, Any]":
    """Return a write that appends to a table of Delta, and creates a missing one.

    Raises:
        ConfigurationError: its location is a name, or it has properties that have no meaning here.
    """
    options = delta.hadoop_options(config)
    config.finish()
    options["path"] = table.required_location()
    if "/" not in options["path"]:
        raise ConfigurationError(
            f"The LOCATION of the table {shown(table.name)} of ddl is a name, and rows are written "
            "to a path: give that of its folder, or write the rows of the query with "
            'WriteToSpark(table=…, format="delta").'
        )
    return _WriteDelta(options, stored_types(table.columns.type))


class _WriteDelta(beam.PTransform[PCollection[Any], PCollection[Any]]):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__()
        self._options = options
        self._schema = schema

    def expand(self, rows: PCollection[Any]) -> PCollection[Any]:
        return rows | WriteToSpark("delta", dict(self._options), self._schema)

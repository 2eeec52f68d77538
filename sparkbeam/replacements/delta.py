"""``managed.Read`` of Delta tables and of their change data feed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam

from sparkbeam.common.arguments import shown
from sparkbeam.connectors.latest import quoted
from sparkbeam.connectors.storage import from_here
from sparkbeam.errors import ConfigurationError
from sparkbeam.replacements.managed_config import ManagedConfig
from sparkbeam.replacements.table_reads import ReadTable, TableFormat

DELTA = TableFormat(
    "delta",
    "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
)
_CHANGES = ("_change_type", "_commit_version", "_commit_timestamp")


def read(system: str, config: ManagedConfig) -> "beam.PTransform[Any, Any]":
    """Return a read of a table, at a version or a time if one is given."""
    table = config.required("table")
    options = _hadoop(config)
    version, timestamp = config.number("version"), config.text("timestamp")
    if version is not None and timestamp:
        raise ConfigurationError(f"{config.name}: give either version or timestamp.")
    options |= {} if version is None else {"versionAsOf": str(version)}
    options |= {"timestampAsOf": timestamp} if timestamp else {}
    config.finish()
    return _reading(table, options)


def read_changes(system: str, config: ManagedConfig) -> "beam.PTransform[Any, Any]":
    """Return a read of the changes of a table between two versions or times."""
    table = config.required("table")
    options = {"readChangeFeed": "true", **_hadoop(config)}
    for end, name in (("start", "starting"), ("end", "ending")):
        version, timestamp = config.number(f"{end}_version"), config.text(f"{end}_timestamp")
        if version is not None and timestamp:
            raise ConfigurationError(
                f"{config.name}: give either {end}_version or {end}_timestamp."
            )
        options |= {} if version is None else {f"{name}Version": str(version)}
        options |= {f"{name}Timestamp": timestamp} if timestamp else {}
    if not {"startingVersion", "startingTimestamp"} & options.keys():
        raise ConfigurationError(f"{config.name}: give start_version or start_timestamp.")
    wanted = config.names("include_metadata_columns")
    for name in wanted:
        if name not in _CHANGES:
            raise ConfigurationError(
                f"{config.name}: include_metadata_columns has {shown(name)}, and the columns of a "
                f"change are {', '.join(_CHANGES)}."
            )
    config.finish()
    return _reading(table, options, leave_out=[name for name in _CHANGES if name not in wanted])


def _hadoop(config: ManagedConfig) -> dict[str, str]:
    """Return settings of Hadoop's file systems, which Delta takes as options."""
    found = config.texts("hadoop_config")
    for name in found:
        if not name.startswith(("fs.", "dfs.")):
            raise ConfigurationError(
                f"{config.name}: hadoop_config has {shown(name)}, and a read takes settings of "
                "file systems alone: give the session --spark_conf=spark.hadoop.NAME=VALUE."
            )
    return found


def _reading(
    table: str, options: dict[str, str], leave_out: Sequence[str] = ()
) -> "beam.PTransform[Any, Any]":
    is_changes = "readChangeFeed" in options

    def frame(session: Any) -> Any:
        reader = session.read.format("delta").options(**options)
        is_path = "/" in table or ":" in table or (Path(table) / "_delta_log").is_dir()
        found = (
            reader.load(from_here(table, "delta", session))
            if is_path
            else reader.table(".".join(map(quoted, table.split("."))))
        )
        # A field of a row has no underscore in front.
        names = {name: name.lstrip("_") for name in _CHANGES}
        return found.drop(*leave_out).withColumnsRenamed(names if is_changes else {})

    return ReadTable(DELTA, frame, f"the Delta table {shown(table)}", tuple(options.items()))

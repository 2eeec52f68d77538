"""``managed.Read`` of Delta tables and of their change data feed."""

from datetime import datetime
from pathlib import Path
from typing import Any

import apache_beam as beam

from sparkbeam.common.arguments import shown
from sparkbeam.connectors.latest import quoted
from sparkbeam.connectors.storage import from_here
from sparkbeam.errors import ConfigurationError
from sparkbeam.hooks.managed_config import ManagedConfig
from sparkbeam_tables.catalog_reads import ReadTable, TableFormat, TableRows

DELTA = TableFormat(
    "delta",
    "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
)
_CHANGES = ("_change_type", "_commit_version", "_commit_timestamp")
_FIELDS = {name: name.lstrip("_") for name in _CHANGES}
"""Fields of rows by the column: those of Python's NamedTuples have no underscore in front."""


def read(system: str, config: ManagedConfig) -> "beam.PTransform[Any, Any]":
    """Return a read of a table, at a version or a time if one is given."""
    table = config.required("table")
    options = hadoop_options(config)
    version, timestamp = config.number("version"), config.text("timestamp")
    if version is not None and timestamp:
        raise ConfigurationError(f"{config.name}: give either version or timestamp.")
    options |= {} if version is None else {"versionAsOf": str(version)}
    options |= {"timestampAsOf": timestamp} if timestamp else {}
    config.finish()
    return ReadTable(
        DELTA,
        f"the Delta table {shown(table)}",
        lambda session: TableRows(_frame(table, session, session.read, options)),
        options=tuple(options.items()),
    )


def read_changes(system: str, config: ManagedConfig) -> "beam.PTransform[Any, Any]":
    """Return a read of the changes of a table.

    It ends at a version or a time, by default with the newest change; in a streaming pipeline it
    goes on with those to come.
    """
    table = config.required("table")
    hadoop = hadoop_options(config)
    starts, ends = _bounds(config, "start", "starting"), _bounds(config, "end", "ending")
    if not starts:
        raise ConfigurationError(f"{config.name}: give start_version or start_timestamp.")
    _check_order(config, starts, ends)
    wanted = config.names("include_metadata_columns")
    for name in wanted:
        if name not in _CHANGES:
            raise ConfigurationError(
                f"{config.name}: include_metadata_columns has {shown(name)}, but the metadata "
                f"columns of a change are {', '.join(_CHANGES)}."
            )
    config.finish()
    options = {"readChangeFeed": "true", **hadoop, **starts, **ends}
    left_out = [_FIELDS[name] for name in _CHANGES if name not in wanted]

    def of_frame(frame: Any, time: str | None = None) -> TableRows:
        renamed = frame.withColumnsRenamed(_FIELDS)
        return TableRows(renamed, [n for n in renamed.columns if n not in left_out], time)

    def follow(session: Any, most: int | None) -> TableRows:
        frame = _frame(table, session, session.readStream, options)
        return of_frame(frame, _FIELDS["_commit_timestamp"])

    return ReadTable(
        DELTA,
        f"the changes of the Delta table {shown(table)}",
        lambda session: of_frame(_frame(table, session, session.read, options)),
        follow=None if ends else follow,
        options=tuple(options.items()),
    )


def _bounds(config: ManagedConfig, end: str, name: str) -> dict[str, str]:
    """Return an end of the versions to read, as an option of Delta."""
    version, timestamp = config.number(f"{end}_version"), config.text(f"{end}_timestamp")
    if version is not None and timestamp:
        raise ConfigurationError(f"{config.name}: give either {end}_version or {end}_timestamp.")
    if version is not None:
        return {f"{name}Version": str(version)}
    return {f"{name}Timestamp": timestamp} if timestamp else {}


def _check_order(config: ManagedConfig, starts: dict[str, str], ends: dict[str, str]) -> None:
    """Raise a ConfigurationError if a range of versions, or of times, ends before it begins."""
    parsers: dict[str, Any] = {"version": int, "timestamp": datetime.fromisoformat}
    for kind, parsed in parsers.items():
        values = [
            options.get(f"{name}{kind.title()}")
            for name, options in (("starting", starts), ("ending", ends))
        ]
        try:
            start, end = map(parsed, values)
            is_wrong = end < start
        except (ValueError, TypeError):  # Delta knows more forms of times.
            continue
        if is_wrong:
            raise ConfigurationError(
                f"{config.name}: end_{kind}={shown(values[1])} is before start_{kind}="
                f"{shown(values[0])}: swap them."
            )


def hadoop_options(config: ManagedConfig) -> dict[str, str]:
    """Return settings of Hadoop's file systems, which Delta takes as options.

    Raises:
        ConfigurationError: there are other settings.
    """
    found = config.texts("hadoop_config")
    for name in found:
        if not name.startswith(("fs.", "dfs.")):
            raise ConfigurationError(
                f"{config.name}: hadoop_config has {shown(name)}, but a read accepts only file "
                "system settings: set it in the session with --spark_conf=spark.hadoop.NAME=VALUE."
            )
    return found


def _frame(table: str, session: Any, reader: Any, options: dict[str, str]) -> Any:
    """Return a table, which is a path, a URL or a name."""
    reader = reader.format("delta").options(**options)
    if "/" in table or ":" in table or (Path(table) / "_delta_log").is_dir():
        return reader.load(from_here(table, "delta", session))
    return reader.table(".".join(map(quoted, table.split("."))))

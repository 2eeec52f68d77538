"""``managed.Read`` of the changes of Iceberg tables."""

from typing import Any

import apache_beam as beam
from pyspark.sql import functions as sf

from sparkbeam.common.arguments import one_of, shown
from sparkbeam.connectors.latest import quoted
from sparkbeam.errors import ConfigurationError
from sparkbeam.hooks.managed_config import ManagedConfig
from sparkbeam_tables.catalog_reads import ReadTable, TableRows
from sparkbeam_tables.iceberg import ICEBERG, Selection, catalog_of
from sparkbeam_tables.iceberg_snapshots import SnapshotRange, snapshots

_CHANGES = _KIND, _ORDINAL, _SNAPSHOT = "_change_type", "_change_ordinal", "_commit_snapshot_id"
_FIELDS = {name: name.lstrip("_") for name in _CHANGES}
_TIME = "sparkbeam_committed_at"
_EARLIEST, _LATEST = "earliest", "latest"


def read(system: str, config: ManagedConfig) -> "beam.PTransform[Any, Any]":
    """Return a read of the changes between two snapshots, or of all that are appended from one on.

    Raises:
        ConfigurationError: a read without an end is given one, or columns that it lacks.
    """
    table, catalog, chosen = config.required("table"), catalog_of(config), Selection.of(config)
    streaming = config.flag("streaming")
    given = config.text("starting_strategy").lower()
    strategy = given or (_LATEST if streaming else _EARLIEST)
    one_of("starting_strategy", strategy, (_EARLIEST, _LATEST))
    first, since = config.number("from_snapshot"), config.number("from_timestamp")
    if given and (first, since) != (None, None):
        raise ConfigurationError(
            f"{config.name}: starting_strategy cannot be combined with from_snapshot or "
            "from_timestamp: leave one of them out."
        )
    last, until = config.number("to_snapshot"), config.number("to_timestamp")
    latest = strategy == _LATEST and (first, since) == (None, None)
    try:
        wanted = SnapshotRange(first, since, last, until, latest)
    except ConfigurationError as error:
        raise ConfigurationError(f"{config.name}: {error}") from None
    # The trigger of the pipeline is its pace.
    config.number("poll_interval_seconds")
    config.finish()
    if streaming:
        _check_endless(config, wanted, chosen)

    def rows(session: Any) -> TableRows:
        catalog.check(session, table)
        return _changes(session, catalog.identifier(session, table), wanted, chosen)

    def follow(session: Any, most: int | None) -> TableRows:
        catalog.check(session, table)
        return _appended(session, catalog.identifier(session, table), wanted, chosen, most)

    return ReadTable(
        ICEBERG,
        f"the changes of the Iceberg table {shown(table)}",
        rows,
        follow=follow if streaming else None,
        endless=streaming,
        options=catalog.properties,
    )


def _check_endless(config: ManagedConfig, wanted: SnapshotRange, chosen: Selection) -> None:
    for name, end in (("to_snapshot", wanted.last), ("to_timestamp", wanted.until)):
        if end is not None:
            raise ConfigurationError(
                f"{config.name}: {name} ends a read, but a read with streaming has no end: "
                "leave one of them out."
            )
    hidden = [name for name in chosen.keep if name in _CHANGES]
    if hidden:
        raise ConfigurationError(
            f"{config.name}: keep has {shown(hidden[0])}, but a read with streaming has only "
            "appended rows: leave it out."
        )


def _changes(session: Any, name: str, wanted: SnapshotRange, chosen: Selection) -> TableRows:
    """Return the changes of a range of snapshots, at the times of their commits."""
    found = wanted.within(snapshots(session, name))
    reader = session.read
    if found:
        reader = reader.option("end-snapshot-id", str(found[-1].id))
    if found and found[0].parent is not None:
        reader = reader.option("start-snapshot-id", str(found[0].parent))
    changes = reader.table(f"{name}.changes")
    columns = [column for column in changes.columns if column not in _CHANGES]
    names = chosen.names(columns, _CHANGES)
    removing = next((each for each in found if each.removes_rows), None)
    if removing is not None and _KIND not in names:
        raise ConfigurationError(
            f"The snapshot {removing.id} deletes or replaces rows ({removing.operation}), but the "
            f"rows do not show which are deleted: list {shown(_KIND)} and the columns to read in "
            f"keep, so that rows have the field {shown(_FIELDS[_KIND])} (INSERT or DELETE), or end "
            "the range before this snapshot."
        )
    if not found:
        changes = changes.where("false")
    commits = session.table(f"{name}.snapshots").select(
        "snapshot_id", sf.col("committed_at").alias(_TIME)
    )
    # Iceberg reads all of its three columns or none, and cannot filter by them, as an inner join
    # has Spark do.
    is_whole = sf.length(_KIND) + sf.col(_ORDINAL) >= 0
    commit = sf.col("snapshot_id") == sf.when(is_whole, sf.col(_SNAPSHOT))
    timed = chosen.filtered(changes).join(sf.broadcast(commits), commit, "left")
    rows = timed.select(*map(quoted, names), _TIME).withColumnsRenamed(_FIELDS)
    return TableRows(rows, [_FIELDS.get(each, each) for each in names], _TIME)


def _appended(
    session: Any, name: str, wanted: SnapshotRange, chosen: Selection, most: int | None
) -> TableRows:
    """Return the rows that are appended, as a stream."""
    reader = session.readStream
    since = wanted.since
    if since is None and (wanted.latest or wanted.first is not None):
        found = wanted.within(snapshots(session, name))
        since = found[0].millis if found else None
    if since is not None:
        reader = reader.option("stream-from-timestamp", str(since))
    if most is not None:
        reader = reader.option("streaming-max-rows-per-micro-batch", str(most))
    frame = reader.table(name)
    return TableRows(chosen.filtered(frame).select(*map(quoted, chosen.names(frame.columns))))

"""Snapshots of an Iceberg table, and ranges of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as sf

from sparkbeam.common.arguments import shown
from sparkbeam.errors import ConfigurationError

_REMOVING = frozenset(["overwrite", "delete"])


@dataclass(frozen=True)
class Snapshot:
    """A snapshot.

    Attributes:
        parent: the id of the one before; None for the first.
        operation: ``append``, ``overwrite``, ``delete`` or ``replace``.
    """

    id: int
    parent: int | None
    millis: int
    operation: str

    @property
    def removes_rows(self) -> bool:
        """True if rows may have been deleted or replaced by others."""
        return self.operation in _REMOVING


def snapshots(session: Any, name: str) -> list[Snapshot]:
    """Return the snapshots that led to the current one, the oldest first.

    Args:
        name: the quoted name of the table.
    """
    heads = session.table(f"{name}.refs").where("name = 'main'").select("snapshot_id").collect()
    columns = [
        "snapshot_id",
        "parent_id",
        sf.unix_millis("committed_at").alias("millis"),
        "operation",
    ]
    rows = session.table(f"{name}.snapshots").select(*columns).collect()
    known = {row.snapshot_id: row for row in rows}
    found = []
    at = heads[0].snapshot_id if heads else None
    while at in known:
        row = known[at]
        found.append(Snapshot(row.snapshot_id, row.parent_id, row.millis, row.operation))
        at = row.parent_id
    return found[::-1]


@dataclass(frozen=True)
class SnapshotRange:
    """A range of snapshots; times are in milliseconds.

    Attributes:
        first: the id of the first one; None for none.
        since: or the time from which it counts; None for none.
        last: the id of the last one; None for none.
        until: or the time up to which it counts; None for none.
        latest: without a start it begins with the current snapshot, otherwise with the oldest.
    """

    first: int | None = None
    since: int | None = None
    last: int | None = None
    until: int | None = None
    latest: bool = False

    def __post_init__(self) -> None:
        """Check what can be checked without a table.

        Raises:
            ConfigurationError: there are two starts or two ends, or the end is before the start.
        """
        for one, other, values in (
            ("from_snapshot", "from_timestamp", (self.first, self.since)),
            ("to_snapshot", "to_timestamp", (self.last, self.until)),
        ):
            if None not in values:
                raise ConfigurationError(f"give either {one} or {other}, not both.")
        if self.since is not None and self.until is not None and self.until < self.since:
            raise ConfigurationError(
                f"to_timestamp={self.until} is before from_timestamp={self.since}: swap them."
            )

    def within(self, known: Sequence[Snapshot]) -> Sequence[Snapshot]:
        """Return the snapshots of the range.

        Args:
            known: those of the table, the oldest first.

        Raises:
            ConfigurationError: a snapshot is not one of the table, or the end is before the start.
        """
        begin, end = len(known) - 1 if self.latest and known else 0, len(known)
        since = self.since or 0
        if self.since is not None:
            begin = sum(each.millis < since for each in known)
        if self.first is not None:
            begin = _place(known, self.first, "from_snapshot")
        if self.until is not None:
            end = sum(each.millis <= self.until for each in known)
        if self.last is not None:
            end = _place(known, self.last, "to_snapshot") + 1
        if known and end == 0:
            raise ConfigurationError(
                f"to_timestamp={self.until} is before the oldest snapshot, {known[0].id}, at "
                f"the time {known[0].millis}: use a later time, in milliseconds."
            )
        of_snapshot = self.first is not None or self.latest
        is_late = self.since is not None and self.last is not None
        if known and (end <= begin if of_snapshot else is_late and known[end - 1].millis < since):
            raise ConfigurationError(
                f"The range begins {self._start(known)} and ends with the older snapshot "
                f"{known[end - 1].id}, at the time {known[end - 1].millis}: "
                "swap from_… and to_…, or leave one of them out."
            )
        return known[begin:end]

    def _start(self, known: Sequence[Snapshot]) -> str:
        if self.since is not None:
            return f"at from_timestamp={self.since}"
        if self.first is not None:
            return f"with from_snapshot={self.first}"
        return f"with the current snapshot, {known[-1].id} (starting_strategy='latest')"


def _place(known: Sequence[Snapshot], id: int, name: str) -> int:
    ids = [each.id for each in known]
    if id not in ids:
        raise ConfigurationError(
            f"{name}={shown(id)} is not one of the {len(ids)} unexpired snapshots that led to the "
            "current one. SELECT * FROM TABLE.snapshots lists them."
        )
    return ids.index(id)

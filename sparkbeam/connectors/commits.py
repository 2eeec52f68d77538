"""Commits of tables that name the micro-batch of a sink, so that each is written once."""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as sf

TRANSACTION = ("txnAppId", "txnVersion")
"""Options by which a Delta table recognizes a repeated transaction."""

PROPERTY = "snapshot-property."
"""Prefix of the option of a write for a property of its Iceberg snapshot."""

_SINK, _BATCH = "sparkbeam-sink", "sparkbeam-batch"


@dataclass(frozen=True)
class Commit:
    """The commit of a micro-batch.

    Attributes:
        sink: id of the sink and its checkpoint.
        batch_id: of the micro-batch.
    """

    sink: str
    batch_id: int

    @property
    def properties(self) -> dict[str, str]:
        """Properties of an Iceberg snapshot."""
        return {_SINK: self.sink, _BATCH: str(self.batch_id)}

    def options(self, format: str) -> dict[str, str]:
        """Return the options of the write.

        Args:
            format: of the table, in lower case.
        """
        if format == "delta":
            return dict(zip(TRANSACTION, (self.sink, str(self.batch_id)), strict=True))
        if format == "iceberg":
            return {f"{PROPERTY}{name}": value for name, value in self.properties.items()}
        return {}

    def is_in(self, session: Any, table: str) -> bool:
        """Return whether an Iceberg table has the snapshot.

        Args:
            session: of the table.
            table: its name in SQL.
        """
        summary = sf.col("summary")
        ours = session.table(f"{table}.snapshots").where(summary[_SINK] == self.sink)
        return bool(ours.where(summary[_BATCH] == str(self.batch_id)).limit(1).count())

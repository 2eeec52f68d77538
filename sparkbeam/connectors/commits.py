"""Commits of tables that name the micro-batch of a sink, so that each is written once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as sf

_TRANSACTION = ("txnAppId", "txnVersion")
"""Options by which a Delta table recognizes a repeated transaction."""

_PROPERTY = "snapshot-property."
"""Prefix of the option of a write for a property of its Iceberg snapshot."""

_SINK, _BATCH = "sparkbeam-sink", "sparkbeam-batch"
_OF_DELTA = "spark.databricks.delta.write."
_OF_ICEBERG = "spark.sql.iceberg."


@dataclass(frozen=True)
class Commit:
    """The commit of a micro-batch.

    Attributes:
        sink_id: id of the sink and its checkpoint.
        batch_id: of the micro-batch.
    """

    sink_id: str
    batch_id: int

    @property
    def properties(self) -> dict[str, str]:
        """Properties of an Iceberg snapshot."""
        return {_SINK: self.sink_id, _BATCH: str(self.batch_id)}

    def options(self, format: str) -> dict[str, str]:
        """Return the options of the write.

        Args:
            format: of the table, in lower case.
        """
        if format == "delta":
            return dict(zip(_TRANSACTION, (self.sink_id, str(self.batch_id)), strict=True))
        if format == "iceberg":
            return snapshot_options(self.properties)
        return {}

    def is_in(self, session: Any, table: str) -> bool:
        """Return whether an Iceberg table has the snapshot."""
        summary = sf.col("summary")
        ours = session.table(f"{table}.snapshots").where(summary[_SINK] == self.sink_id)
        return bool(ours.where(summary[_BATCH] == str(self.batch_id)).limit(1).count())


def snapshot_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a write whose Iceberg snapshot gets properties."""
    return {f"{_PROPERTY}{name}": value for name, value in properties.items()}


def merge_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a write that name its commit, as settings of a session for a MERGE."""
    found = {f"{_OF_DELTA}{name}": options[name] for name in _TRANSACTION if name in options}
    return found | {f"{_OF_ICEBERG}{name}": options[name] for name in options if _PROPERTY in name}

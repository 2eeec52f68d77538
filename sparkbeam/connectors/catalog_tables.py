"""Tables of Spark's catalogs as sinks, by name and in their existing format."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.types import StructField, StructType

from sparkbeam.common.arguments import listed, shown
from sparkbeam.connectors.assignments import checked_rows
from sparkbeam.connectors.storage import FILE_FORMATS
from sparkbeam.errors import ConfigurationError

_DETAILS = "# Detailed Table Information"
_OF_FILES = frozenset(["MANAGED", "EXTERNAL"])
_NO_OPTIONS = ("", "[]", "[serialization.format=1]")
_WITH_FOLDERS = FILE_FORMATS | {"hive"}
"""Table formats whose partitions must be registered with Spark."""


@dataclass(frozen=True)
class CatalogTable:
    """An existing table.

    Attributes:
        format: of its data; None if Spark does not report it.
        folder: of its files, if adding files adds rows to the table; else empty.
    """

    name: str
    format: str | None
    folder: str
    partition_by: tuple[str, ...]
    schema: StructType

    def check(self, format: str | None, partition_by: tuple[str, ...]) -> None:
        """Raise a ConfigurationError if files of another form would be added."""
        own = self.format or ""
        if self.folder and (format or own).lower() != own.lower():
            raise ConfigurationError(
                f"The table {shown(self.name)} has the format {own}, but format={shown(format)} "
                "was given: leave format out, or write to another table."
            )
        if self.folder and partition_by and partition_by != self.partition_by:
            divided = listed(self.partition_by) or "nothing"
            raise ConfigurationError(
                f"The table {shown(self.name)} is partitioned by {divided}, but partition_by="
                f"{shown([*partition_by])} was given: leave it out, or write to another table."
            )

    def check_merge(self) -> None:
        """Raise a ConfigurationError if rows cannot be merged into the table."""
        if self.folder:
            raise ConfigurationError(
                f"The table {shown(self.name)} has the format {self.format}, which does not "
                "support output_mode='update': write to a Delta or Iceberg table."
            )

    def fitted(self, rows: Any) -> Any:
        """Select and cast the columns of the table.

        Raises:
            ConfigurationError: the rows have a column that the table lacks, or cuts.
        """
        known = {name.lower() for name in self.schema.names}
        others = [name for name in rows.columns if name.lower() not in known]
        if others:
            raise ConfigurationError(
                f"The table {shown(self.name)} has no column {listed(others)}, only "
                f"{listed(self.schema.names)}: leave it out, or add it with ALTER TABLE."
            )
        # Spark checks nullability when it writes.
        fields = [StructField(field.name, field.dataType) for field in self.schema]
        return checked_rows(rows, self.schema, self.name).to(StructType(fields))

    def added(self, session: Any) -> None:
        """Make a session find files that were added to the folder."""
        if self.partition_by:
            session.catalog.recoverPartitions(self.name)
        session.catalog.refreshTable(self.name)


def found_table(session: Any, name: str) -> CatalogTable | None:
    """Return the table of a name, or None.

    Raises:
        ConfigurationError: the name belongs to a temporary view.
    """
    if not session.catalog.tableExists(name):
        return None
    rows = [row[:2] for row in session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()]
    titles = [title for title, _ in rows]
    if _DETAILS not in titles:
        raise ConfigurationError(
            f"table={shown(name)} is a temporary view: use the name of a table. If a table has the "
            "same name, write it with its schema, such as 'default.clicks'."
        )
    details = dict(rows[titles.index(_DETAILS) + 1 :])
    format = details.get("Provider", "")
    is_folder = (
        details.get("Type") in _OF_FILES
        and format.lower() in FILE_FORMATS
        and "Num Buckets" not in details  # Names of files would tell the buckets.
        # Options, such as a separator, are reported as one text without secrets.
        and details.get("Storage Properties", "") in _NO_OPTIONS
    )
    columns = session.catalog.listColumns(name) if format.lower() in _WITH_FOLDERS else ()
    return CatalogTable(
        name,
        format or None,
        details.get("Location", "") if is_folder else "",
        tuple(column.name for column in columns if column.isPartition),
        session.table(name).schema,
    )


def refresh_table(session: Any, name: str) -> None:
    """Refresh a session's list of a table's files, if the table exists."""
    with suppress(PySparkException):
        session.catalog.refreshTable(name)

"""Tables of Spark's catalogs as sinks write them: by their name, in the form that they have."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.types import StructField, StructType

from sparkbeam.common.arguments import listed, shown
from sparkbeam.connectors.storage import FILE_FORMATS
from sparkbeam.errors import ConfigurationError

_DETAILS = "# Detailed Table Information"
_OF_FILES = frozenset(["MANAGED", "EXTERNAL"])
_NO_OPTIONS = ("", "[]", "[serialization.format=1]")
_WITH_FOLDERS = FILE_FORMATS | {"hive"}
"""The formats of tables of which Spark wants to be told the partitions that they have."""


@dataclass(frozen=True)
class Table:
    """A table that is there.

    Attributes:
        name: under which the session knows it.
        format: of its data; None where Spark does not tell.
        folder: where its files are, if adding files to a folder adds rows to it; else empty.
        partition_by: the columns by whose values its files are in folders.
        schema: its columns.
    """

    name: str
    format: str | None
    folder: str
    partition_by: tuple[str, ...]
    schema: StructType

    def check(self, format: str | None, partition_by: tuple[str, ...]) -> None:
        """Raises a ConfigurationError where files cannot be added to it in another form."""
        own = self.format or ""
        if self.folder and (format or own).lower() != own.lower():
            raise ConfigurationError(
                f"The table {shown(self.name)} is of {own}, and format={shown(format)} was "
                "given: leave format out, or write to another table."
            )
        if self.folder and partition_by and partition_by != self.partition_by:
            divided = listed(self.partition_by) or "nothing"
            raise ConfigurationError(
                f"The table {shown(self.name)} is divided by {divided}, and partition_by="
                f"{shown([*partition_by])} was given: leave it out, or write to another table."
            )

    def fitted(self, rows: Any) -> Any:
        """Rows with the columns of the table, in its order and of its types.

        Raises:
            ConfigurationError: they have a column that the table has not.
        """
        known = {name.lower() for name in self.schema.names}
        others = [name for name in rows.columns if name.lower() not in known]
        if others:
            raise ConfigurationError(
                f"The table {shown(self.name)} has no column {listed(others)}, only "
                f"{listed(self.schema.names)}: leave it out, or add it with ALTER TABLE."
            )
        # Whether a column may be null Spark sees as it writes.
        fields = [StructField(field.name, field.dataType) for field in self.schema]
        return rows.to(StructType(fields))

    def added(self, session: Any) -> None:
        """Has a session find the files that somebody has added to the folder."""
        if self.partition_by:
            session.catalog.recoverPartitions(self.name)
        session.catalog.refreshTable(self.name)


def found_table(session: Any, name: str) -> Table | None:
    """The table of a name; None where there is none yet.

    Raises:
        ConfigurationError: the name is that of a temporary view.
    """
    if not session.catalog.tableExists(name):
        return None
    rows = [row[:2] for row in session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()]
    titles = [title for title, _ in rows]
    if _DETAILS not in titles:
        raise ConfigurationError(
            f"table={shown(name)} is a temporary view: give the name of a table, or write it with "
            "its schema, such as 'default.clicks'."
        )
    details = dict(rows[titles.index(_DETAILS) + 1 :])
    format = details.get("Provider", "")
    columns = session.catalog.listColumns(name) if format.lower() in _WITH_FOLDERS else ()
    return Table(
        name,
        format or None,
        details["Location"] if _is_folder(details) else "",
        tuple(column.name for column in columns if column.isPartition),
        session.table(name).schema,
    )


def see_anew(session: Any, name: str) -> None:
    """Has a session look again which files a table has, if there is one."""
    with suppress(PySparkException):
        session.catalog.refreshTable(name)


def _is_folder(details: Mapping[str, str]) -> bool:
    """Return whether files of the table's format are all that it needs.

    Those with buckets tell them by their names. Options, such as a separator, are told as one text,
    in which what may be secret is left out.
    """
    return (
        details.get("Type") in _OF_FILES
        and details.get("Provider", "").lower() in FILE_FORMATS
        and "Num Buckets" not in details
        and details.get("Storage Properties", "") in _NO_OPTIONS
        and bool(details.get("Location"))
    )

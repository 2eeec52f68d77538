"""Targets of writes by Spark: a data source with its options, or a table."""

from copy import copy
from typing import Any

from sparkbeam.connectors.catalog_tables import CatalogTable
from sparkbeam.connectors.commits import Commit
from sparkbeam.connectors.storage import FILE_FORMATS
from sparkbeam.plan.spark_io import UPDATE, WriteSpec


class WriteTarget:
    """Target of a data source.

    Attributes:
        format: its name; None for the table's, or Spark's default.
        table: the name of the target table; empty if the options define the target.
        found: the table, if it exists.
        commit: that of the micro-batch; None in batch.
    """

    def __init__(self, spec: WriteSpec) -> None:
        self.mode = spec.mode
        self.is_update = spec.output_mode == UPDATE
        self.options = dict(spec.options)
        self.format = spec.format
        self.partition_by = spec.partition_by
        self.table = spec.table
        self.found: CatalogTable | None = None
        self.commit: Commit | None = None

    def keep_to(self, table: CatalogTable | None) -> None:
        """Adopt the properties of an existing table, unless given otherwise.

        Raises:
            ConfigurationError: the rows to add do not fit the table.
        """
        if table is not None:
            if self.mode == "append":
                table.check(self.format, self.partition_by)
            self.format = self.format or table.format
            self.partition_by = self.partition_by or table.partition_by
        self.found = table

    @property
    def source(self) -> str:
        """The format in lower case; empty if it is not known."""
        return (self.format or "").lower()

    @property
    def has_snapshots(self) -> bool:
        """True for an existing Iceberg table with a name."""
        return self.found is not None and self.source == "iceberg"

    @property
    def is_of_catalog(self) -> bool:
        """True for a table of Iceberg, or of a catalog without formats, such as one of JDBC."""
        return self.source in ("iceberg", "")

    def fitted(self, rows: Any) -> Any:
        """Adapt rows to the table that they are added to."""
        if self.found is None or self.mode != "append":
            return rows
        if self.is_update:
            self.found.check_merge()
        return self.found.fitted(rows)

    @property
    def folder(self) -> str:
        """Folder to which files are added; empty for other targets."""
        if self.mode != "append" or self.is_update or self.source not in FILE_FORMATS:
            return ""
        return self.path if not self.table else self.found.folder if self.found else ""

    def with_commit(self, commit: Commit) -> "WriteTarget":
        """Return a copy for the commit of a micro-batch."""
        target = copy(self)
        target.options, target.commit = dict(self.options), commit
        return target

    def aside(self, folder: str) -> "WriteTarget":
        """Return a copy with another folder, without a table."""
        target = copy(self)
        target.options, target.table = dict(self.options), ""
        target.path = folder
        return target

    @property
    def path(self) -> str:
        """The option ``path``, case-insensitive; empty if there is none."""
        return next((self.options[name] for name in self._paths()), "")

    @path.setter
    def path(self, path: str) -> None:
        for name in self._paths():
            del self.options[name]
        self.options["path"] = path

    def _paths(self) -> list[str]:
        return [name for name in self.options if name.lower() == "path"]

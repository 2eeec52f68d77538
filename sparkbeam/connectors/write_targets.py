"""Targets of writes by Spark: a data source with its options, or a table."""

from dataclasses import dataclass, replace
from typing import Any

from sparkbeam.connectors.catalog_tables import CatalogTable
from sparkbeam.connectors.commits import Commit
from sparkbeam.connectors.storage import FILE_FORMATS
from sparkbeam.plan.spark_io import UPDATE, WriteSpec


@dataclass(frozen=True)
class WriteTarget:
    """Target of a data source.

    Attributes:
        spec: of the sink; its format is None for the table's, or Spark's default.
        found: the table, if it exists.
        commit: that of the micro-batch; None in batch.
    """

    spec: WriteSpec
    found: CatalogTable | None = None
    commit: Commit | None = None

    def in_table(self, table: CatalogTable | None) -> "WriteTarget":
        """Return the target with the properties of an existing table, unless given otherwise.

        Raises:
            ConfigurationError: the rows to add do not fit the table.
        """
        spec = self.spec
        if table is not None:
            if spec.mode == "append":
                table.check(spec.format, spec.partition_by)
            partition_by = spec.partition_by or table.partition_by
            spec = replace(spec, format=spec.format or table.format, partition_by=partition_by)
        return replace(self, spec=spec, found=table)

    def fitted(self, rows: Any) -> Any:
        """Adapt rows to the table that they are added to."""
        if self.found is None or self.spec.mode != "append":
            return rows
        if self.spec.output_mode == UPDATE:
            self.found.check_merge()
        return self.found.fitted(rows)

    @property
    def folder(self) -> str:
        """Folder to which files are added; empty for other targets."""
        spec = self.spec
        is_added = spec.mode == "append" and spec.output_mode != UPDATE
        if not is_added or spec.source not in FILE_FORMATS:
            return ""
        return spec.option("path") if not spec.table else self.found.folder if self.found else ""

    def with_options(self, **more: str) -> "WriteTarget":
        """Return the target with more options."""
        return replace(self, spec=self.spec.with_options(more))

    def aside(self, folder: str) -> "WriteTarget":
        """Return the target with another folder, without a table."""
        return replace(self, spec=replace(self.spec, table="").with_options({"path": folder}))

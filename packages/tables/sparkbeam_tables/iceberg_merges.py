"""Changes of rows, merged into an Iceberg table by a key."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as sf

from sparkbeam.common.arguments import listed, shown
from sparkbeam.connectors.commits import merge_settings, snapshot_options
from sparkbeam.connectors.latest import quoted
from sparkbeam.errors import ConfigurationError
from sparkbeam.plan.spark_io import Options
from sparkbeam.spark.capabilities import settings_for_now

INSERT, BEFORE, AFTER, DELETE = KINDS = ("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE")
"""Kinds of changes."""

_DELETED, _PLACE = "sparkbeam_deleted", "sparkbeam_place"


@dataclass(frozen=True)
class ChangeMerge:
    """Merge of changes.

    Attributes:
        key: the columns that identify a row; none for the identifier fields of the table.
        order: the column with the order of the changes of a key.
        kind: the column with the kind of a change; empty if all are inserts.
        kinds: the kind by the value of the column; none for values that are kinds.
        upsert: the images before an update are left out.
    """

    key: tuple[str, ...]
    order: str
    kind: str = ""
    kinds: Options = ()
    upsert: bool = False

    def data(self, rows: Any) -> Any:
        """Return rows without the columns that describe their change."""
        return rows.drop(self.order, self.kind)

    def checked(self, rows: Any, names: Sequence[str]) -> Any:
        """Return the kinds of changes, which fail to be computed if one is unknown.

        Raises:
            ConfigurationError: the rows or the table lack a column.
        """
        self._check(rows, names, self.key)
        return rows.select(self._kind_of())

    def __call__(
        self, rows: Any, columns: list[Any], name: str, properties: Mapping[str, str]
    ) -> None:
        """Merge the latest change of each key into a table.

        Args:
            columns: those of the table, of the rows.
            name: the quoted name of the table.

        Raises:
            ConfigurationError: the rows or the table lack a column.
        """
        session = rows.sparkSession
        names = session.table(name).columns
        key = self.key or _identifiers(session, name)
        self._check(rows, names, key)
        if not key:
            raise ConfigurationError(
                "equality_columns is missing, and the table has no identifier fields: name the "
                "columns that identify a row."
            )
        view = f"sparkbeam_changes_{uuid.uuid4().hex}"
        self._latest(rows, key).select(*columns, _DELETED).createOrReplaceTempView(view)
        is_same = " AND ".join(f"target.{quoted(k)} <=> change.{quoted(k)}" for k in key)
        values = ", ".join(f"target.{quoted(each)} = change.{quoted(each)}" for each in names)
        fields = ", ".join(map(quoted, names))
        inserted = ", ".join(f"change.{quoted(each)}" for each in names)
        try:
            with settings_for_now(session, merge_settings(snapshot_options(properties))):
                session.sql(
                    f"MERGE INTO {name} AS target USING {view} AS change ON {is_same} "
                    f"WHEN MATCHED AND change.{_DELETED} THEN DELETE "
                    f"WHEN MATCHED THEN UPDATE SET {values} "
                    f"WHEN NOT MATCHED AND NOT change.{_DELETED} "
                    f"THEN INSERT ({fields}) VALUES ({inserted})"
                )
        finally:
            session.catalog.dropTempView(view)

    def _check(self, rows: Any, names: Sequence[str], key: tuple[str, ...]) -> None:
        for argument, wanted, there in (
            ("sequence_number_column", [self.order], rows.columns),
            ("change_type_column", [self.kind] if self.kind else [], rows.columns),
            ("equality_columns", key, [each for each in names if each in rows.columns]),
        ):
            for each in wanted:
                if each not in there:
                    raise ConfigurationError(
                        f"{argument}: column {shown(each)} not found. Use one of {listed(there)}."
                    )

    def _latest(self, rows: Any, key: tuple[str, ...]) -> Any:
        """Return the last change of each key, and whether it deletes the row."""
        kind = self._kind_of()
        changes = rows.withColumn(_DELETED, kind.isin(DELETE, BEFORE))
        if self.upsert:
            changes = changes.where(kind != BEFORE)
        # The images before and after an update may have the same place.
        last = Window.partitionBy(*map(quoted, key)).orderBy(
            sf.col(quoted(self.order)).desc(), sf.col(_DELETED)
        )
        return changes.withColumn(_PLACE, sf.row_number().over(last)).where(f"{_PLACE} = 1")

    def _kind_of(self) -> Any:
        if not self.kind:
            return sf.lit(INSERT)
        given = sf.col(quoted(self.kind))
        problem = sf.concat(
            sf.lit(f"The column {self.kind} has an unknown kind of change: "),
            sf.coalesce(given, sf.lit("null")),
        )
        kind = sf.raise_error(problem).cast("string")
        for value, known in self.kinds or [(each, each) for each in KINDS]:
            kind = sf.when(given == value, sf.lit(known)).otherwise(kind)
        return kind


def _identifiers(session: Any, name: str) -> tuple[str, ...]:
    """Return the identifier fields of a table."""
    found = session.sql(f"SHOW TBLPROPERTIES {name}").where("key = 'identifier-fields'").collect()
    text = found[0].value.strip("[]") if found else ""
    return tuple(sorted(part.strip() for part in text.split(",") if part.strip()))

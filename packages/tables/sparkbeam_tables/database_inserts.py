"""Insertion of rows into the tables of databases, by the position of their columns."""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as sf
from pyspark.sql import types as st

from sparkbeam.common.arguments import listed, shown
from sparkbeam.connectors.assignments import check_assignment, checked_value, failing
from sparkbeam.connectors.latest import quoted
from sparkbeam.errors import ConfigurationError
from sparkbeam_tables.database_tables import DatabaseTable
from sparkbeam_tables.databases import Database
from sparkbeam_tables.utc_times import in_utc

_IMPLICIT_CASTS = frozenset(["postgresql", "mysql", "mariadb", "sqlserver"])
"""Databases that take a timestamp as a text, in whose time zone the driver has no part."""


@dataclass(frozen=True)
class InsertRows:
    """Function for :class:`.ForeachBatch` that adds rows to a table.

    Attributes:
        table: the name of the table in SQL.
        batch_size: the number of rows that are sent at once; None for the default.
    """

    database: Database
    table: str
    batch_size: int | None = None

    def __call__(self, rows: Any, batch_id: int) -> None:
        """Add the rows of a micro-batch.

        Raises:
            ConfigurationError: the rows have more fields than the table has columns, or one whose
                digits a column cuts.
        """
        session = rows.sparkSession
        self.database.prepare(session)
        table = DatabaseTable(self.database, self.table).schema(session)
        if len(rows.columns) > len(table):
            raise ConfigurationError(
                f"the rows have {len(rows.columns)} fields ({listed(rows.columns)}), but the table "
                f"{shown(self.table)} has {len(table)} columns ({listed(table.names)}): fields are "
                "assigned to columns by position."
            )
        pairs = [*zip(rows.schema, table, strict=False)]
        check_assignment(pairs, self.table)
        # The text of a value gets the type of its column in the database.
        more = {"stringtype": "unspecified"} if self.database.scheme == "postgresql" else {}
        options = self.database.options(
            dbtable=self.table,
            batchsize=self.batch_size,
            numPartitions=self.database.max_connections,
        )
        fitted = rows.select(*(self._fitted(field, column) for field, column in pairs))
        fitted.write.format("jdbc").options(**more | options).mode("append").save()

    def _fitted(self, field: st.StructField, column: st.StructField) -> Any:
        # Databases check the lengths of texts.
        plain = st.StructField(column.name, column.dataType)
        value = self._checked(checked_value(field, plain), field, column)
        if isinstance(field.dataType, st.TimestampType):
            value = self._timestamp(value, column.dataType)
        return value.alias(column.name)

    def _checked(self, value: Any, field: st.StructField, column: st.StructField) -> Any:
        """Return a value, or fail where the database would not name the column."""
        fields, place = field.dataType, f"the column {shown(column.name)}"
        given = sf.col(quoted(field.name))
        if isinstance(fields, st.StringType) and self.database.scheme == "postgresql":
            wrong = given.contains("\0")
            problem = f"has the character NUL, which {place} of PostgreSQL cannot hold"
        elif isinstance(fields, st.FractionalType) and self.database.scheme in ("mysql", "mariadb"):
            # Neither NaN nor an infinite number equals itself less itself.
            wrong = (given - given) != sf.lit(0.0)
            problem = f"is infinite or not a number, which {place} cannot hold"
        else:
            return value
        return failing(value, wrong, f"A value of the field {shown(field.name)} {problem}.")

    def _timestamp(self, value: Any, column: st.DataType) -> Any:
        if self.database.scheme == "postgresql":
            # A column without a time zone ignores it.
            return sf.concat(in_utc(value).cast("string"), sf.lit("+00"))
        if not isinstance(column, st.TimestampNTZType):
            return value
        local = in_utc(value)
        return local.cast("string") if self.database.scheme in _IMPLICIT_CASTS else local

"""DataFrames of tables that Spark reads, with the columns that ``ddl`` declares."""

from typing import Any

from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sparkbeam.common.arguments import shown
from sparkbeam.connectors.latest import quoted
from sparkbeam.errors import ConfigurationError
from sparkbeam.replacements.calcite_ddl import ExternalTable
from sparkbeam.replacements.sql_rows import column_types


def columns_of(table: ExternalTable, frame: Any) -> Any:
    """Return the DataFrame of the declared columns of another one, in their types.

    Raises:
        ConfigurationError: there is no such column, or it has another type.
    """
    found = {field.name: field.dataType for field in frame.schema.fields}
    return frame.select(
        *(
            _cast(table, name, found.get(name), wanted)
            for name, wanted in column_types(table.columns.type).items()
        )
    )


def _cast(table: ExternalTable, name: str, found: DataType | None, wanted: DataType) -> Any:
    column = sf.col(quoted(name))
    if found is None:
        raise ConfigurationError(
            f"The table {shown(table.name)} of ddl has no column {shown(name)} where it is stored."
        )
    same = any(isinstance(found, kinds) and isinstance(wanted, kinds) for kinds in _AS_THEY_ARE)
    if same or found.simpleString() == _with_zone(wanted):
        return column
    if isinstance(wanted, ArrayType | MapType | StructType):
        raise ConfigurationError(
            f"The column {shown(name)} of the table {shown(table.name)} is "
            f"{found.simpleString()} where it is stored, and another type in ddl."
        )
    return column.cast(wanted).alias(name)


_AS_THEY_ARE = ((DecimalType,), (TimestampType, TimestampNTZType))
"""Types that keep their precision and zone until the query reads them."""


def _with_zone(kind: DataType) -> str:
    return kind.simpleString().replace("timestamp_ntz", "timestamp")

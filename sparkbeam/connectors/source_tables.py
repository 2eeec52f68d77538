"""Existing tables of data sources, which the options of a write name."""

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import types as st

from sparkbeam.plan.spark_io import UPDATE, WriteSpec

_UNLIMITED = (st.DecimalType(38, 18), st.DecimalType(38, 10))
"""Spark's types for decimals of databases without a limit."""

_UNTYPED = "jdbc:sqlite:"
"""URLs of a database whose columns hold values of all types."""


def table_columns(session: Any, spec: WriteSpec) -> st.StructType | None:
    """Return the columns of the table that rows are added to; None if they are not known.

    This reads no rows. Columns whose limits are not known are left out.

    Args:
        spec: of a sink without the name of a table.
    """
    columns_of = _COLUMNS.get(spec.source)
    is_truncated = spec.mode == "overwrite" and spec.option("truncate").lower() == "true"
    keeps_table = spec.output_mode == UPDATE or spec.mode == "append"
    if columns_of is None or not (keeps_table or (spec.source == "jdbc" and is_truncated)):
        return None
    try:
        return columns_of(session, spec)
    except Exception:
        return None  # There is no table yet, or the write fails with the same error.


def _of_database(session: Any, spec: WriteSpec) -> st.StructType | None:
    if spec.option("url").startswith(_UNTYPED):
        return None
    found = session.read.format("jdbc").options(**dict(spec.options)).load().schema
    # Databases check the lengths of texts, which the metadata has.
    fields = [st.StructField(field.name, field.dataType) for field in found]
    return st.StructType([field for field in fields if field.dataType not in _UNLIMITED])


def _of_delta(session: Any, spec: WriteSpec) -> st.StructType | None:
    if spec.option("mergeschema").lower() == "true":
        return None  # The columns may get wider types.
    found: st.StructType = session.read.format("delta").load(spec.option("path")).schema
    return found


_COLUMNS: Mapping[str, Callable[[Any, WriteSpec], st.StructType | None]] = {
    "delta": _of_delta,
    "jdbc": _of_database,
}
"""By data source."""

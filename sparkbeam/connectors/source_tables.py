"""Existing tables of data sources, which the options of a write name."""

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
    is_truncated = spec.mode == "overwrite" and spec.option("truncate").lower() == "true"
    keeps_table = spec.output_mode == UPDATE or spec.mode == "append"
    try:
        # With mergeSchema, the columns may get wider types.
        is_merged = spec.option("mergeschema").lower() == "true"
        if spec.source == "delta" and keeps_table and not is_merged:
            found: st.StructType = session.read.format("delta").load(spec.option("path")).schema
            return found
        is_untyped = spec.option("url").startswith(_UNTYPED)
        if spec.source == "jdbc" and (keeps_table or is_truncated) and not is_untyped:
            found = session.read.format("jdbc").options(**dict(spec.options)).load().schema
            # Databases check the lengths of texts, which the metadata has.
            fields = [st.StructField(field.name, field.dataType) for field in found]
            return st.StructType([field for field in fields if field.dataType not in _UNLIMITED])
    except Exception:  # There is no table yet, or the write fails with the same error.
        return None
    return None

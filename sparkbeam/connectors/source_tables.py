"""Existing tables of data sources, which the options of a write name."""

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import types as st

from sparkbeam.connectors.upserts import option
from sparkbeam.plan.spark_io import UPDATE, WriteSpec

_UNLIMITED = (st.DecimalType(38, 18), st.DecimalType(38, 10))
"""Spark's types for decimals of databases without a limit."""

_UNTYPED = "jdbc:sqlite:"
"""URLs of a database whose columns hold values of all types."""


def table_columns(
    session: Any, spec: WriteSpec, options: Mapping[str, str]
) -> st.StructType | None:
    """Return the columns of the table that rows are added to; None if they are not known.

    This reads no rows. Columns whose limits are not known are left out.

    Args:
        spec: of a sink without the name of a table.
    """
    columns_of = _COLUMNS.get(spec.source)
    if columns_of is None or not _keeps_table(spec):
        return None
    try:
        return columns_of(session, options)
    except Exception:
        return None  # There is no table yet, or the write fails with the same error.


def _keeps_table(spec: WriteSpec) -> bool:
    """Return whether a write leaves an existing table its columns."""
    if spec.output_mode == UPDATE or spec.mode == "append":
        return True
    truncates = option(dict(spec.options), "truncate").lower() == "true"
    return spec.source == "jdbc" and spec.mode == "overwrite" and truncates


def _of_database(session: Any, options: Mapping[str, str]) -> st.StructType | None:
    if option(options, "url").startswith(_UNTYPED):
        return None
    found = session.read.format("jdbc").options(**options).load().schema
    # Databases check the lengths of texts, which the metadata has.
    fields = [st.StructField(field.name, field.dataType) for field in found]
    return st.StructType([field for field in fields if field.dataType not in _UNLIMITED])


def _of_delta(session: Any, options: Mapping[str, str]) -> st.StructType | None:
    if option(options, "mergeSchema").lower() == "true":
        return None  # The columns may get wider types.
    found: st.StructType = session.read.format("delta").load(option(options, "path")).schema
    return found


_COLUMNS: Mapping[str, Callable[[Any, Mapping[str, str]], st.StructType | None]] = {
    "delta": _of_delta,
    "jdbc": _of_database,
}
"""By data source."""

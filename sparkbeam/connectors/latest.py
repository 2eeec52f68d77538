"""Latest row of each key, of a DataFrame and of an Arrow table."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def latest(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the last row of each key in a table, in the order of the rows.

    Args:
        key: the columns that identify a row; nulls are equal.
    """
    numbered = table.select(key).append_column("row", pa.array(np.arange(len(table))))
    numbered = numbered.rename_columns([*map(str, range(len(key))), "row"])
    columns = numbered.column_names[:-1]
    last = numbered.group_by(columns, use_threads=False).aggregate([("row", "max")])
    return table.take(np.sort(last["row_max"].to_numpy()))


def latest_rows(rows: Any, key: Sequence[str], position: str) -> Any:
    """Return the last row of each key in a DataFrame.

    Args:
        key: see :func:`latest`.
        position: the column that orders the rows; it is dropped.
    """
    from pyspark.sql import functions as sf

    columns = [quoted(name) for name in rows.columns if name != position]
    last = sf.max_by(sf.struct(*columns), quoted(position)).alias("row")
    return rows.groupBy(*map(quoted, key)).agg(last).select("row.*")


def quoted(name: str) -> str:
    """Quote a column name for Spark's SQL."""
    return f"`{name.replace('`', '``')}`"

"""Arrow batch sizes of a streaming query.

Before each row that Spark adds to a batch for a worker, it measures the batch to respect
``spark.sql.execution.arrow.maxBytesPerBatch``. For a row of two numbers this costs half as much as
the rest of the transfer. But numeric rows have a known size, and rows between layers are cut into
pieces (:func:`sparkbeam.wire.messages.cut`). So a query that reads nothing else from Spark limits
the number of rows instead.
"""

import math
from collections.abc import Iterable
from typing import Any

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    NullType,
    NumericType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sparkbeam.spark.capabilities import set_setting, setting

_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_UNLIMITED = str((1 << 31) - 1)
"""Disables Spark's measurement."""

_ROWS = 16_384
_ROW_BYTES = 512
"""Limits a batch to 8 MiB of a source, or 128 MiB of pieces of 8 KiB."""

_NUMBERS = NumericType, BooleanType, DateType, TimestampType, TimestampNTZType
_NUMBER_BYTES = 8


def rows_are_small(schemas: Iterable[StructType]) -> bool:
    """Return whether the rows of Spark's sources have a small known size; False without sources."""
    return max(map(_size, schemas), default=math.inf) <= _ROW_BYTES


def limit_rows(session: Any) -> None:
    """Limit the rows per batch of a session's queries instead of the bytes; keep a lower limit.

    Args:
        session: the query's copy of the user's session.
    """
    own = int(setting(session, _RECORDS) or _ROWS)
    if set_setting(session, _RECORDS, str(min(own, _ROWS) if own > 0 else _ROWS)):
        set_setting(session, _BYTES, _UNLIMITED)


def _size(kind: DataType) -> float:
    """Return the largest size of a value in bytes; infinity if unbounded."""
    if isinstance(kind, StructType):
        return sum(_size(field.dataType) for field in kind)
    if isinstance(kind, DecimalType):
        return 2 * _NUMBER_BYTES
    if isinstance(kind, NullType):
        return 0
    return _NUMBER_BYTES if isinstance(kind, _NUMBERS) else math.inf

"""How much Spark hands to a worker at once in a streaming query.

Spark measures what it has gathered for a worker before each row that it adds, to keep to
``spark.sql.execution.arrow.maxBytesPerBatch``. For a row of two numbers that costs half as much as
all else that is done to bring it there. Rows of numbers have a size that is known, though, and
those between layers come in pieces (:func:`sparkbeam.wire.messages.cut`). So a query that reads
nothing else from Spark limits the number of rows instead.
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

_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_UNLIMITED = str((1 << 31) - 1)
"""Spark measures nothing then."""

_ROWS = 16_384
_ROW_BYTES = 512
"""So a worker gets 8 MiB of a source at once at most, and 128 MiB of pieces of 8 KiB."""

_NUMBERS = NumericType, BooleanType, DateType, TimestampType, TimestampNTZType
_NUMBER_BYTES = 8


def rows_are_small(schemas: Iterable[StructType]) -> bool:
    """Whether the rows of Spark's sources are known to be small; not if there are none."""
    return max(map(_size, schemas), default=math.inf) <= _ROW_BYTES


def limit_rows(session: Any) -> None:
    """Makes the queries of a session limit rows instead of bytes; fewer rows than ours are kept.

    Args:
        session: the copy of the user's session that a query runs in.
    """
    own = int(session.conf.get(_RECORDS, str(_ROWS)))
    session.conf.set(_RECORDS, str(min(own, _ROWS) if own > 0 else _ROWS))
    session.conf.set(_BYTES, _UNLIMITED)


def _size(kind: DataType) -> float:
    """How many bytes a value has at most; infinity where there is no such limit."""
    if isinstance(kind, StructType):
        return sum(_size(field.dataType) for field in kind)
    if isinstance(kind, DecimalType):
        return 2 * _NUMBER_BYTES
    if isinstance(kind, NullType):
        return 0
    return _NUMBER_BYTES if isinstance(kind, _NUMBERS) else math.inf

"""Arrow batch sizes of a streaming query.

Before each row that Spark adds to a batch for a worker, it measures the batch to respect
``spark.sql.execution.arrow.maxBytesPerBatch``. For a row of two numbers this costs half as much as
the rest of the transfer. But numbers have a known size, and texts are cut into pieces, here those
of a source and in :func:`sparkbeam.wire.messages.cut` those between layers. So a query that reads
nothing else from Spark limits the number of rows instead.
"""

import math
from collections.abc import Iterable
from typing import Any

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    NullType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from sparkbeam.spark.capabilities import set_setting, setting
from sparkbeam.wire.row_pieces import PIECE

_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_UNLIMITED = str((1 << 31) - 1)
"""Disables Spark's measurement."""

_ROWS = 16_384
_ROW_BYTES = 512
_TEXT = 2048
"""Limits a batch to 8 MiB of numbers and 32 Mi letters of a source, or 128 MiB of pieces."""

_BINARY = "UTF8_BINARY"
_BYTES_AS_TEXT = "ISO-8859-1"

_SHORTEST = 64
"""The least number of letters per piece, in a row of many texts."""

_NUMBERS = NumericType, BooleanType, DateType, TimestampType, TimestampNTZType
_NUMBER_BYTES = 8
_TEXTS = StringType, BinaryType, CharType, VarcharType


def has_bounded_rows(schemas: Iterable[StructType]) -> bool:
    """Return whether the rows of Spark's sources are small, once their texts are in pieces.

    Returns:
        False without sources.
    """
    return max(map(_size_without_texts, schemas), default=math.inf) <= _ROW_BYTES


def split_long_values(frame: Any) -> Any:
    """Return the rows of a source in order, a row with long texts as several rows.

    :func:`sparkbeam.wire.row_pieces.joined` joins them.
    """
    names = [f"c{number}" for number in range(len(frame.columns))]
    kinds = {name: field.dataType for name, field in zip(names, frame.schema, strict=True)}
    texts = [name for name in names if _is_text(kinds[name])]
    if not texts:
        return frame
    size = max(_TEXT // len(texts), _SHORTEST)
    lengths = ", ".join(f"octet_length({name})" for name in texts)
    is_long = f"greatest({lengths}, 0) > {size}"
    # A substring of each piece would read a text from its start, and a lambda end code generation.
    cut = ", ".join(_cut(name, size, kinds[name]) for name in texts)
    none = ", ".join(f"`{number}`: string" for number in range(len(texts)))
    rows = frame.toDF(*names).selectExpr(
        *names,
        f"posexplode(IF({is_long}, arrays_zip({cut}), array(CAST(NULL AS struct<{none}>))))"
        " AS (number, piece)",
    )
    columns = {name: name for name in names}
    for number, name in enumerate(texts):
        piece = f"coalesce(piece.`{number}`, '')"
        if isinstance(kinds[name], BinaryType):
            piece = f"encode({piece}, '{_BYTES_AS_TEXT}')"
        columns[name] = f"IF(piece IS NULL OR {name} IS NULL, {name}, {piece})"
    counted = "IF(piece IS NULL, 0, number + 1)"
    return rows.selectExpr(*columns.values(), counted).toDF(*frame.columns, PIECE)


def _cut(name: str, size: int, kind: DataType) -> str:
    """Return an expression of the pieces of a text."""
    text = f"decode({name}, '{_BYTES_AS_TEXT}')" if isinstance(kind, BinaryType) else name
    return f"coalesce(regexp_extract_all({text}, '(?s).{{1,{size}}}', 0), array())"


def limit_rows(session: Any) -> None:
    """Limit the rows per batch of a session's queries instead of the bytes; keep a lower limit.

    Args:
        session: the query's copy of the user's session.
    """
    own = int(setting(session, _RECORDS) or _ROWS)
    if set_setting(session, _RECORDS, str(min(own, _ROWS) if own > 0 else _ROWS)):
        set_setting(session, _BYTES, _UNLIMITED)


def _size_without_texts(schema: StructType) -> float:
    return sum(_size(field.dataType) for field in schema if not _is_text(field.dataType))


def _is_text(kind: DataType) -> bool:
    """Return whether values can be cut; regular expressions know no other collation."""
    return isinstance(kind, _TEXTS) and getattr(kind, "collation", _BINARY) == _BINARY


def _size(kind: DataType) -> float:
    """Return the largest size of a value in bytes; infinity if unbounded."""
    if isinstance(kind, StructType):
        return sum(_size(field.dataType) for field in kind)
    if isinstance(kind, DecimalType):
        return 2 * _NUMBER_BYTES
    if isinstance(kind, NullType):
        return 0
    return _NUMBER_BYTES if isinstance(kind, _NUMBERS) else math.inf

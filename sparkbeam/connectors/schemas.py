"""Schemas in Spark's, Beam's and Arrow's terms; ``docs/io.md`` has the types."""

import inspect
from collections.abc import Hashable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from types import UnionType
from typing import Any, Optional, Union, get_args, get_origin

import numpy as np
import pyarrow as pa
from apache_beam.typehints import typehints
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.timestamp import Timestamp
from pyspark.errors import PySparkException
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from sparkbeam.common.arguments import listed, shown
from sparkbeam.errors import ConfigurationError

_PYTHON_TYPES: dict[type[st.DataType], Any] = {
    # Beam's coder of the smallest integers has no negative ones.
    st.ByteType: np.int16,
    st.ShortType: np.int16,
    st.IntegerType: np.int32,
    st.LongType: int,
    st.FloatType: np.float32,
    st.DoubleType: float,
    st.BooleanType: bool,
    st.StringType: str,
    st.BinaryType: bytes,
    st.TimestampNTZType: Timestamp,
    st.TimestampType: Timestamp,
}
"""Types without parts, but for decimals; of those with the same type in Python the last is used."""

_SPARK_TYPES: dict[Any, st.DataType] = {
    **{python: spark() for spark, python in _PYTHON_TYPES.items()},
    np.int8: st.ByteType(),
    np.int64: st.LongType(),
    np.float64: st.DoubleType(),
    date: st.DateType(),
}

_LISTS = (typehints.ListConstraint, type(typehints.Sequence[int]))
_MAPS = (typehints.DictConstraint, type(typehints.Mapping[str, int]))


METADATA = st.StructField(
    "_metadata",
    st.StructType(
        [
            st.StructField("file_path", st.StringType(), nullable=False),
            st.StructField("file_name", st.StringType(), nullable=False),
            st.StructField("file_size", st.LongType(), nullable=False),
            st.StructField("file_block_start", st.LongType(), nullable=False),
            st.StructField("file_block_length", st.LongType(), nullable=False),
            st.StructField("file_modification_time", st.TimestampType(), nullable=False),
        ]
    ),
    nullable=False,
)
"""Spark's hidden column of all file sources."""


def field_at(schema: st.StructType, path: str) -> st.StructField | None:
    """Return the column of a name or of a dotted path through structs, or None.

    It has the last name of the path, and is nullable if any of the structs is.
    """
    if path in schema.names:
        return schema[path]
    nullable = False
    whole: st.DataType = schema
    for name in path.split("."):
        if not isinstance(whole, st.StructType) or name not in whole.names:
            return None
        field = whole[name]
        nullable, whole = nullable or field.nullable, field.dataType
    return st.StructField(field.name, whole, nullable)


def row_type(schema: st.StructType) -> RowTypeConstraint:
    """Return Beam's row type for a Spark schema."""
    fields = [(field.name, _python_type(field.dataType, field.nullable)) for field in schema.fields]
    return RowTypeConstraint.from_fields(fields)


def _python_type(kind: st.DataType, nullable: bool) -> Any:
    found = _nonnull_type(kind)
    return Optional[found] if nullable and found is not Any else found  # noqa: UP045


def _nonnull_type(kind: st.DataType) -> Any:
    if isinstance(kind, st.ArrayType):
        element = _python_type(kind.elementType, kind.containsNull)
        return Sequence[element]  # type: ignore[valid-type]
    if isinstance(kind, st.MapType):
        item = _python_type(kind.valueType, kind.valueContainsNull)
        key = _nonnull_type(kind.keyType)
        return Mapping[key, item]  # type: ignore[valid-type]
    if isinstance(kind, st.StructType):
        return row_type(kind)
    return Decimal if isinstance(kind, st.DecimalType) else _PYTHON_TYPES.get(type(kind), Any)


def row_constraint(element_type: Any) -> RowTypeConstraint | None:
    """Return the type of elements as that of rows; None for other types."""
    if isinstance(element_type, RowTypeConstraint):
        return element_type
    found: RowTypeConstraint | None = RowTypeConstraint.from_user_type(element_type)
    return found


def spark_schema(element_type: Any, decimals: st.DataType | None = None) -> st.StructType | None:
    """Return the Spark schema for a row type; None for other types.

    Its fields have the types of :func:`spark_field`.
    """
    rows = row_constraint(element_type)
    if rows is None:
        return None
    fields = [spark_field(name, kind, decimals) for name, kind in rows._fields]
    known = [field for field in fields if field is not None]
    return st.StructType(known) if len(known) == len(fields) else None


def spark_field(name: str, kind: Any, decimals: st.DataType | None = None) -> st.StructField | None:
    """Return a column for values of a type, or None.

    Supported are numbers, strings, bytes and times, and lists, dictionaries and rows of them.

    Args:
        decimals: the type of decimals; None if they are not supported.
    """
    kind, nullable = without_none(kind)
    found = _spark_type(kind, decimals)
    return None if found is None else st.StructField(name, found, nullable)


def untyped_fields(kind: Any) -> str:
    """Describe the fields of a row type that have no Spark type, for messages; empty for none."""
    rows = row_constraint(kind)
    fields = rows._fields if rows is not None else ()
    names = [name for name, part in fields if spark_field(name, part) is None]
    return f", where {listed(names)} may have any type" if names else ""


def _spark_type(kind: Any, decimals: st.DataType | None) -> st.DataType | None:
    """Return the Spark type of a type without None."""
    if isinstance(kind, Hashable) and kind in _SPARK_TYPES:
        return _SPARK_TYPES[kind]
    if isinstance(kind, type) and issubclass(kind, Decimal):
        return decimals
    hint = convert_to_beam_type(kind)
    if isinstance(hint, _LISTS):
        element = spark_field("element", hint.inner_type, decimals)
        return element and st.ArrayType(element.dataType, element.nullable)
    if isinstance(hint, _MAPS):
        key = spark_field("key", hint.key_type, decimals)
        item = spark_field("value", hint.value_type, decimals)
        if key is None or item is None or key.nullable:
            return None
        return st.MapType(key.dataType, item.dataType, item.nullable)
    return spark_schema(kind, decimals)


def without_none(kind: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether it was optional."""
    alternatives: Any = getattr(kind, "union_types", None)
    if not alternatives and get_origin(kind) in (Union, UnionType):
        alternatives = get_args(kind)
    inner = [part for part in alternatives or (kind,) if part is not type(None)]
    optional = len(inner) == 1 and inner[0] is not kind
    return (inner[0], True) if optional else (kind, False)


def arrow_schema(schema: st.StructType) -> pa.Schema:
    """Return the Arrow schema of rows for Spark.

    Raises:
        ConfigurationError: Arrow lacks the type of a column.
    """
    # PySpark 4.3 requires a time zone; 4.2 uses UTC.
    asks = "timezone" in inspect.signature(to_arrow_schema).parameters
    zone: dict[str, Any] = {"timezone": "UTC"} if asks else {}
    found = pa.schema([])
    for field in schema:
        try:
            found = found.append(to_arrow_schema(st.StructType([field]), **zone).field(0))
        except (PySparkException, ValueError):
            null = "" if field.nullable else " NOT NULL"
            raise ConfigurationError(
                f"The column {shown(field.name)} of the schema is of type "
                f"{field.dataType.simpleString()}{null}, which rows cannot hold: use another "
                "type, such as string."
            ) from None
    return found

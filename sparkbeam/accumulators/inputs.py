"""Input values of a CombineFn over columns: one Arrow type for each kind.

Columns have the types of their source, such as int32 or a dictionary. The input made of a column
has the same type as the input made of the same values in Python.
"""

from collections.abc import Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa

from sparkbeam.columns.python_types import NONE, PLAIN, Opaque, RecordShape, Scalar, Shape
from sparkbeam.columns.python_types import arrow_type_of as type_of
from sparkbeam.columns.vectors import as_type

_CAST = PLAIN - {NONE}


def input_of(column: pa.Array, shape: Shape) -> pa.Array | None:
    """Return values of a shape; None if they are of several types, or beyond 64 bits."""
    match shape:
        case Scalar() | Opaque():
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            try:
                return as_type(column, type_of(shape)) if shape in _CAST else column
            except pa.ArrowInvalid:
                return None
        case RecordShape() if shape.type is not list:
            each = zip(range(len(shape.fields)), shape.fields, strict=True)
            parts = [input_of(column.field(at), part) for at, part in each]
            return _structs(parts, shape.names, column.is_null() if column.null_count else None)
    return None


def _structs(
    parts: list[pa.Array | None], names: Sequence[str], is_none: pa.Array | None
) -> pa.Array | None:
    found = [part for part in parts if part is not None]
    if len(found) < len(parts) or not parts:
        return None
    return pa.StructArray.from_arrays(found, list(names), mask=is_none)


def input_of_values(values: Sequence[Any]) -> pa.Array | None:
    """Return Python values as an input, likewise."""
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) > 1:
        return None
    kind = kinds.pop() if kinds else type(None)
    names = _names(kind, values)
    try:
        if names is None:
            shape = Scalar(kind)
            return pa.array(values, type_of(shape) if shape in _CAST else None)
    except (pa.ArrowException, OverflowError, TypeError, UnicodeEncodeError):
        return None
    if not names or any(_names(kind, [value]) != names for value in values if value is not None):
        return None
    rows = [[None] * len(names) if value is None else _fields(value) for value in values]
    parts = [input_of_values(part) for part in zip(*rows, strict=True)]
    return _structs(parts, names, pa.array([value is None for value in values]))


def _names(kind: type, values: Sequence[Any]) -> list[str] | None:
    """Return the names of the fields of the first record; None if it is not a record."""
    if not issubclass(kind, tuple | dict | beam.Row):
        return None
    first = next(value for value in values if value is not None)
    if isinstance(first, dict):
        return [*first] if all(type(name) is str for name in first) else []
    if isinstance(first, beam.Row):
        return [*first.as_dict()]
    return list(getattr(first, "_fields", map(str, range(len(first)))))


def _fields(value: Any) -> Sequence[Any]:
    if isinstance(value, beam.Row):
        value = value.as_dict()
    return list(value.values()) if isinstance(value, dict) else value

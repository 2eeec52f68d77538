"""Conversion of columns of elements to those of a sink's rows, without an object per element."""

import pyarrow as pa

from sparkbeam.columns import FallBack
from sparkbeam.columns.arrays import array_of
from sparkbeam.columns.python_types import Opaque, RecordShape, Shape
from sparkbeam.worker.value_columns import Column


def columns_of(column: Column, schema: pa.Schema) -> list[pa.Array] | None:
    """Return the columns of a schema, as they would be made of the elements one by one.

    None if that cannot be promised: elements without named fields or that are None, a field
    that is missing or of another type than its column, an integer that this has no room for, a
    null in a column that has none.
    """
    shape, array = column.shape, column.array
    if not isinstance(shape, RecordShape) or shape.type in (tuple, list) or array.null_count:
        return None
    found = []
    for field in schema:
        if field.name not in shape.names:
            if shape.type is not dict:
                return None
            part = pa.nulls(len(array), field.type)
        else:
            at = shape.names.index(field.name)
            part = _as_type(array.field(at), shape.fields[at], field.type)
        if part is None or (part.null_count and not field.nullable):
            return None
        found.append(part)
    return found


def _is_free(kind: pa.DataType) -> bool:
    """Return whether a type allows nulls everywhere and keys more than once."""
    # A dict has each key of a map once.
    inner = [kind.field(at) for at in range(kind.num_fields)]
    return not pa.types.is_map(kind) and all(
        field.nullable and _is_free(field.type) for field in inner
    )


def _as_type(array: pa.Array, shape: Shape, kind: pa.DataType) -> pa.Array | None:
    if not _is_free(kind):
        return None
    if isinstance(shape, Opaque):
        return array if array.type == kind else None
    try:
        return array_of(array, shape, kind)
    except FallBack:
        return None

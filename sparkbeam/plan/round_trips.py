"""Values of a column behind a coder that encodes and decodes them.

Elements leave a stage encoded. A column may leave it unchanged if the coder gives back equal
values. Most coders do, but a ``FloatCoder`` makes floats of ints, a ``RowCoder`` makes instances of
the class that its schema stands for, and a user's coder may make anything.
"""

import pyarrow as pa
from apache_beam.coders import RowCoder, coders

from sparkbeam.columns.python_types import (
    BOOL,
    BYTES,
    FLOAT,
    INT,
    STR,
    RecordShape,
    Scalar,
    Shape,
    tells_all,
)
from sparkbeam.columns.times import is_timestamp
from sparkbeam.upstream.beam import is_of_timestamps, part_of_nullable

OF_TYPE: dict[type[coders.Coder], Scalar] = {
    coders.VarIntCoder: INT,
    coders.FloatCoder: FLOAT,
    coders.BooleanCoder: BOOL,
    coders.StrUtf8Coder: STR,
    coders.BytesCoder: BYTES,
}
"""The coders of plain types."""


def round_tripped(coder: coders.Coder, array: pa.Array, shape: Shape) -> Shape | None:
    """Return the Python shape of a column's values after a coder has encoded and decoded them.

    The values are equal if the shape is. None if a coder might refuse them or return others.
    """
    part = part_of_nullable(coder)
    takes_none = part is not None or type(coder) is coders.FastPrimitivesCoder
    return _but_none(part or coder, array, shape) if takes_none or not array.null_count else None


def _but_none(coder: coders.Coder, array: pa.Array, shape: Shape) -> Shape | None:
    """Return the same for all values but None."""
    kind = type(coder)
    if kind is coders.FastPrimitivesCoder:
        return shape if tells_all(shape) else None
    if kind in OF_TYPE:
        fits = shape == OF_TYPE[kind] and array.type != pa.uint64()
        return shape if fits else None
    if is_of_timestamps(coder):
        fits = is_timestamp(shape) and array.type.unit != "ns"
        return shape if fits else None
    if not isinstance(shape, RecordShape):
        return None
    if type(coder) is coders.TupleCoder and shape.type is tuple:
        parts = coder.coders()
        if len(parts) != len(shape.fields):
            return None
        fields = [
            round_tripped(part, array.field(at), shape.fields[at]) for at, part in enumerate(parts)
        ]
        return _record(tuple, shape, fields)
    if type(coder) is RowCoder and tuple(part.name for part in coder.schema.fields) == shape.names:
        found: list[Shape | None] = []
        for at, part in enumerate(coder.schema.fields):
            values = array.field(at)
            may_be = part.type.nullable or not values.null_count
            known = _but_none(coder.components[at], values, shape.fields[at]) if may_be else None
            found.append(known)
        return _record(coder.to_type_hint(), shape, found)
    return None


def _record(kind: type, shape: RecordShape, fields: list[Shape | None]) -> RecordShape | None:
    known = [part for part in fields if part is not None]
    return RecordShape(kind, shape.names, tuple(known)) if len(known) == len(fields) else None

"""Columns of the rows that Spark reads."""

import pyarrow as pa
from apache_beam.coders import RowCoder
from apache_beam.internal import pickler
from apache_beam.portability.api import schema_pb2
from apache_beam.typehints.schemas import (
    DecimalLogicalType,
    MicrosInstant,
    named_tuple_from_schema,
)

from sparkbeam.columns import Opaque, RecordShape, Scalar, Shape
from sparkbeam.columns.python_types import arrow_type_of
from sparkbeam.plan.spark_io import ReadSpec

_SCALARS = {
    schema_pb2.BYTE: int,
    schema_pb2.INT16: int,
    schema_pb2.INT32: int,
    schema_pb2.INT64: int,
    schema_pb2.FLOAT: float,
    schema_pb2.DOUBLE: float,
    schema_pb2.STRING: str,
    schema_pb2.BOOLEAN: bool,
    schema_pb2.BYTES: bytes,
}
_OTHER = Opaque(pa.date32())
"""A field of a type that schemas do not have: a date, in most cases."""
_LOGICAL: dict[str, Shape] = {
    MicrosInstant.urn(): Opaque(pa.timestamp("us", "UTC")),
    DecimalLogicalType.urn(): Opaque(pa.decimal128(38, 18)),
}
"""Shapes of the values of Beam's logical types, as Spark delivers them."""


def schema_of(spec: ReadSpec) -> schema_pb2.Schema:
    """Return the schema of the rows of a source."""
    coder: RowCoder = pickler.loads(spec.coder)
    return coder.schema


def shape_of_rows(schema: schema_pb2.Schema) -> RecordShape:
    """Return the shape of rows with a schema."""
    names = tuple(part.name for part in schema.fields)
    return RecordShape(
        named_tuple_from_schema(schema), names, tuple(_field(part.type) for part in schema.fields)
    )


def _field(kind: schema_pb2.FieldType) -> Shape:
    match kind.WhichOneof("type_info"):
        case "atomic_type":
            return Scalar(_SCALARS[kind.atomic_type])
        case "row_type":
            return shape_of_rows(kind.row_type.schema)
        case "array_type":
            return Opaque(pa.list_(arrow_type_of(_field(kind.array_type.element_type))))
        case "map_type":
            of_key, of_item = kind.map_type.key_type, kind.map_type.value_type
            return Opaque(pa.map_(*(arrow_type_of(_field(part)) for part in (of_key, of_item))))
    return _LOGICAL.get(kind.logical_type.urn, _OTHER)

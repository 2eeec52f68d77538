"""Conversion of the columns of a source to rows of Beam's schemas."""

from typing import Any

import pyarrow as pa
from apache_beam.coders import RowCoder
from apache_beam.portability.api import schema_pb2
from apache_beam.typehints.schemas import named_tuple_from_schema

from sparkbeam.columns.python_types import RecordShape, Shape, shape_of
from sparkbeam.columns.python_values import Rows, converted
from sparkbeam.common.placeholders import filling
from sparkbeam.worker.value_columns import Column

_ARROW = {
    schema_pb2.BYTE: pa.int8(),
    schema_pb2.INT16: pa.int16(),
    schema_pb2.INT32: pa.int32(),
    schema_pb2.INT64: pa.int64(),
    schema_pb2.FLOAT: pa.float32(),
    schema_pb2.DOUBLE: pa.float64(),
    schema_pb2.STRING: pa.string(),
    schema_pb2.BOOLEAN: pa.bool_(),
    schema_pb2.BYTES: pa.binary(),
}
"""The types of columns that stand in for others; those of other types hold None."""


class RowMaker:
    """Maker of rows, of the class that the coder decodes them to."""

    def __init__(self, coder: RowCoder) -> None:
        self._schema: schema_pb2.Schema = coder.schema
        self._names = [part.name for part in self._schema.fields]
        self._make: Any = _class_of(self._schema)._make
        self._inner = [_rows(part.type) for part in self._schema.fields]
        self._shapes: dict[pa.DataType, Shape] = {}

    def filled(self, arrays: list[pa.Array | None], count: int) -> list[pa.Array]:
        """Return arrays in the order of the schema; those that are None are not read."""
        return [
            filling(_ARROW.get(part.type.atomic_type, pa.null()), count) if array is None else array
            for array, part in zip(arrays, self._schema.fields, strict=True)
        ]

    def column(self, arrays: list[pa.Array]) -> Column:
        """Return the rows of arrays, which are in the order of the schema."""
        structs = pa.StructArray.from_arrays(arrays, self._names)
        shape = self._shapes.get(structs.type)
        if shape is None:
            shape = self._shapes[structs.type] = _record(structs.type, self._schema)
        return Column(structs, shape, self._values)

    def _values(self, structs: pa.Array) -> list[Any]:
        fields = [converted(structs.field(at), rows) for at, rows in enumerate(self._inner)]
        # To call the class would take three times as long.
        return list(map(self._make, zip(*fields, strict=True)))


def _class_of(schema: schema_pb2.Schema) -> Any:
    return named_tuple_from_schema(schema)


def _rows(kind: schema_pb2.FieldType) -> Rows | None:
    """Return the classes of the structs in a type; None if there are none."""
    match kind.WhichOneof("type_info"):
        case "row_type":
            schema = kind.row_type.schema
            inner = [_rows(part.type) for part in schema.fields]
            return Rows(_class_of(schema)._make, inner)
        case "array_type":
            return Rows(inner=[_rows(kind.array_type.element_type)])
        case "map_type":
            return Rows(inner=[_rows(kind.map_type.key_type), _rows(kind.map_type.value_type)])
    return None


def _record(kind: pa.DataType, schema: schema_pb2.Schema) -> RecordShape:
    names = tuple(part.name for part in schema.fields)
    fields = [
        _record(part.type, beams.type.row_type.schema)
        if pa.types.is_struct(part.type)
        else shape_of(part.type)
        for part, beams in zip(kind, schema.fields, strict=True)
    ]
    return RecordShape(_class_of(schema), names, tuple(fields))

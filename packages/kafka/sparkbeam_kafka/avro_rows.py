"""Rows of Avro records: Beam's, with nulls in place of lists, maps and rows, and logical types.

Beam's schema of a record leaves logical types out, and its rows have values that do not fit it.
"""

import decimal
import io
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import fastavro
from apache_beam.portability.api import schema_pb2
from apache_beam.typehints import schemas
from apache_beam.utils.timestamp import Timestamp

from sparkbeam_kafka.upstream import avro_schema

_MOMENTS = ("timestamp-millis", "timestamp-micros")
_KEPT = ("decimal", *_MOMENTS)
_LOGICAL = "logicalType"
_PARTS = ("items", "values", "type")

_CHECKED_DECIMAL = "sparkbeam-decimal"
"""The logical type of decimals for ``fastavro``, which rounds what exceeds the precision."""

Convert = Callable[[Any], Any]


def read(data: bytes, writer: Any, reader: Any = None) -> Any:
    """Return what ``fastavro`` reads with schemas without the logical types that rows lack.

    Raises:
        ValueError: a decimal has more digits than its type.
    """
    return fastavro.schemaless_reader(io.BytesIO(data), writer, reader)


def _decimal(data: bytes, writer: Any = None, reader: Any = None) -> decimal.Decimal:
    precision, number = writer["precision"], int.from_bytes(data, "big", signed=True)
    if abs(number) >= 10**precision:
        raise ValueError(f"a decimal has more than the {precision} digits of its type")
    context = decimal.Context(prec=precision)
    return decimal.Decimal(number).scaleb(-writer.get("scale", 0), context)


for _kind in ("bytes", "fixed"):
    fastavro.read.LOGICAL_READERS[f"{_kind}-{_CHECKED_DECIMAL}"] = _decimal


def avro_rows(schema: Any) -> tuple[schema_pb2.Schema, Any, Convert]:
    """Return the schema of the rows of a record, that to read it with, and a function.

    The function makes a row of what ``fastavro`` reads. Decimals are Decimals, and instants
    Timestamps; dates and times of day are numbers, as in Avro.
    """
    rows, plain = avro_schema(schema), without_logical_types(schema)
    is_record = isinstance(schema, dict) and schema["type"] == "record"
    kind = schema_pb2.FieldType(row_type=schema_pb2.RowType(schema=rows))
    _refine(schema if is_record else {"type": "record", "fields": [{"type": schema}]}, kind)
    convert = _converter(kind)
    rows = kind.row_type.schema
    return (
        rows,
        plain,
        convert if is_record else lambda value: convert({rows.fields[0].name: value}),
    )


def without_logical_types(schema: Any) -> Any:
    """Return a schema without the logical types that rows do not have."""
    if isinstance(schema, list):
        return [without_logical_types(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        name: without_logical_types(part) if name in _PARTS else part
        for name, part in schema.items()
        if name != _LOGICAL or part in _KEPT
    }
    if found.get(_LOGICAL) == "decimal":
        found[_LOGICAL] = _CHECKED_DECIMAL
    if "fields" in found:
        found["fields"] = [without_logical_types(field) for field in found["fields"]]
    return found


def _refine(avro: Any, kind: schema_pb2.FieldType) -> None:
    """Change the type of a field to the one that its values have."""
    if isinstance(avro, list):
        others = [part for part in avro if part != "null"]
        if len(others) == 1:
            _refine(others[0], kind)
    if not isinstance(avro, dict):
        return
    name, logical = avro["type"], avro.get(_LOGICAL)
    if logical in _KEPT:
        found = schemas.typing_to_runner_api(decimal.Decimal if logical == "decimal" else Timestamp)
        found.nullable = kind.nullable
        kind.CopyFrom(found)
    elif name == "fixed":
        kind.atomic_type = schema_pb2.BYTES
    elif name == "array":
        _refine(avro["items"], kind.array_type.element_type)
    elif name == "map":
        _refine(avro["values"], kind.map_type.value_type)
    elif name == "record":
        for part, field in zip(avro["fields"], kind.row_type.schema.fields, strict=True):
            _refine(part["type"], field.type)


def _converter(kind: schema_pb2.FieldType) -> Convert:
    info = kind.WhichOneof("type_info")
    if info == "array_type":
        of_one = _converter(kind.array_type.element_type)
        return _unless_null(lambda value: [of_one(one) for one in value])
    if info == "map_type":
        of_value = _converter(kind.map_type.value_type)
        return _unless_null(lambda value: {key: of_value(one) for key, one in value.items()})
    if info == "row_type":
        fields = {field.name: _converter(field.type) for field in kind.row_type.schema.fields}
        return _unless_null(
            lambda value: beam.Row(**{name: of(value[name]) for name, of in fields.items()})
        )
    if info == "logical_type" and kind.logical_type.urn == _INSTANT:
        return _unless_null(Timestamp.from_utc_datetime)
    return lambda value: value


_INSTANT = schemas.typing_to_runner_api(Timestamp).logical_type.urn


def _unless_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)

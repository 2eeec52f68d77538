"""From Arrow's columns to the rows that Beam's schemas have for them."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
from apache_beam.coders import RowCoder
from apache_beam.portability.api import schema_pb2
from apache_beam.typehints.schemas import named_tuple_from_schema
from apache_beam.utils.timestamp import Timestamp

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_Converter = Callable[[Any], Any]


class RowMaker:
    """Makes rows, of the class that the coder decodes them to.

    Args:
        coder: of the rows.
    """

    def __init__(self, coder: RowCoder) -> None:
        self._schema: schema_pb2.Schema = coder.schema
        self._make: Any = _row_class(self._schema)._make

    def rows(self, columns: Iterable[pa.Array]) -> Iterator[Any]:
        """The rows of columns, which are in the order of the schema."""
        fields = zip(columns, self._schema.fields, strict=True)
        # To call the class would take three times as long.
        return map(self._make, zip(*(_plain(*field) for field in fields), strict=True))


def _row_class(schema: schema_pb2.Schema) -> Any:
    return named_tuple_from_schema(schema)


def _plain(column: pa.Array, field: schema_pb2.Field) -> list[Any]:
    """The values of a column as Beam's schemas have them."""
    convert = _converter(column.type, field.type)
    if pa.types.is_timestamp(column.type):
        micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
        return [None if m is None else Timestamp(micros=m) for m in micros]
    if convert is None:
        values: list[Any] = column.to_pylist()
        return values
    return _each(convert, column.to_pylist())


def _optional(convert: _Converter, value: Any) -> Any:
    return None if value is None else convert(value)


def _converter(kind: pa.DataType, beams: schema_pb2.FieldType) -> _Converter | None:
    """What makes of Arrow's Python values those of Beam's schemas; None for nothing."""
    if pa.types.is_timestamp(kind):
        return _timestamp
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        of_one = _converter(kind.value_type, beams.array_type.element_type)
        return None if of_one is None else partial(_each, of_one)
    if pa.types.is_map(kind):
        of_key = _converter(kind.key_type, beams.map_type.key_type) or _as_it_is
        of_item = _converter(kind.item_type, beams.map_type.value_type) or _as_it_is
        return lambda pairs: {
            _optional(of_key, key): _optional(of_item, item) for key, item in pairs
        }
    if pa.types.is_struct(kind):
        schema = beams.row_type.schema
        make = _row_class(schema)._make
        parts = [
            (part.name, _converter(part.type, field.type) or _as_it_is)
            for part, field in zip(kind, schema.fields, strict=True)
        ]
        return lambda row: make(_optional(convert, row[name]) for name, convert in parts)
    return None


def _each(convert: _Converter, values: list[Any]) -> list[Any]:
    return [_optional(convert, value) for value in values]


def _as_it_is(value: Any) -> Any:
    return value


def _timestamp(moment: datetime) -> Timestamp:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return Timestamp(micros=(aware - _EPOCH) // _MICROSECOND)

"""Conversion of columns to Python values."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise, repeat
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.pvalue import Row
from apache_beam.utils.timestamp import Timestamp

from sparkbeam.columns.python_types import Lists, Opaque, RecordShape, Shape, Union, is_tuple
from sparkbeam.columns.vectors import take, union_places

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Converter = Callable[[Any], Any]


def values_of(array: pa.Array, shape: Shape) -> list[Any]:
    """Return the Python values of an array."""
    match shape:
        case RecordShape():
            return _records(array, shape)
        case Union():
            return _members(array, shape)
        case Lists():
            return _lists(array, shape)
        case Opaque(is_as_in_arrow=False):
            return converted(array)
    values: list[Any] = array.to_pylist()
    return values


def first_member(array: pa.UnionArray, shape: Union) -> Any:
    """Return the first Python value of a union; a slice contains all children in full."""
    codes, offsets = union_places(array.slice(0, 1))
    code = int(codes[0])
    return values_of(array.field(code).slice(int(offsets[0]), 1), shape.members[code])[0]


def _records(array: pa.Array, shape: RecordShape) -> list[Any]:
    fields = [values_of(array.field(at), part) for at, part in enumerate(shape.fields)]
    rows: Iterable[Any] = zip(*fields, strict=True) if fields else repeat((), len(array))
    if shape.type is Row:
        values: list[Any] = [Row(**dict(zip(shape.names, row, strict=True))) for row in rows]
    elif is_tuple(shape) and shape.type is not tuple:
        # To call the class would take three times as long.
        make: Any = shape.type
        values = list(map(make._make, rows))
    elif shape.type is list:
        values = list(map(list, rows))
    elif shape.type is dict:
        values = [dict(zip(shape.names, row, strict=True)) for row in rows]
    else:
        values = list(rows)
    return _with_none(values, array)


def _with_none(values: list[Any], array: pa.Array) -> list[Any]:
    """Replace values by None where an array is null."""
    if array.null_count:
        for at in np.flatnonzero(np.asarray(array.is_null())).tolist():
            values[at] = None
    return values


def _lists(array: pa.ListArray, shape: Lists) -> list[Any]:
    bounds = array.offsets.to_numpy()
    items = values_of(array.values.slice(bounds[0], bounds[-1] - bounds[0]), shape.item)
    ends = (bounds - bounds[0]).tolist()
    return _with_none([items[start:end] for start, end in pairwise(ends)], array)


def _members(array: pa.Array, shape: Union) -> list[Any]:
    codes, offsets = union_places(array)
    members = [
        iter(values_of(take(array.field(at), offsets[codes == at]), member))
        for at, member in enumerate(shape.members)
    ]
    return [next(members[code]) for code in codes.tolist()]


def converted(array: pa.Array, rows: "Rows | None" = None) -> list[Any]:
    """Return the Python values of an array other than a struct, converted as in Beam's schemas.

    Args:
        rows: the classes of nested structs; None if there are none.
    """
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_timestamp(array.type):
        micros = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64()).to_pylist()
        return [None if m is None else Timestamp(micros=m) for m in micros]
    convert = _converter(array.type, rows)
    values: list[Any] = array.to_pylist()
    return values if convert is None else _each(convert, values)


@dataclass(frozen=True)
class Rows:
    """Classes of the structs in a type, from Beam's schema.

    Attributes:
        make: makes a row of its fields; None for non-structs and plain Rows.
        inner: the same for the fields, the items, or the keys and items.
    """

    make: Converter | None = None
    inner: "Sequence[Rows | None]" = ()

    def __getitem__(self, at: int) -> "Rows | None":
        return self.inner[at] if self.inner else None


def _converter(kind: pa.DataType, rows: Rows | None) -> Converter | None:
    """Return a converter from Arrow's Python values to those of Beam's schemas; None if equal."""
    rows = rows or Rows()
    if pa.types.is_dictionary(kind):
        return _converter(kind.value_type, rows)
    if pa.types.is_timestamp(kind):
        return _timestamp
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        of_one = _converter(kind.value_type, rows[0])
        return None if of_one is None else partial(_each, of_one)
    if pa.types.is_map(kind):
        of_key = _converter(kind.key_type, rows[0]) or _as_it_is
        of_item = _converter(kind.item_type, rows[1]) or _as_it_is
        return lambda pairs: {
            _optional(of_key, key): _optional(of_item, item) for key, item in pairs
        }
    if pa.types.is_struct(kind):
        make = rows.make or partial(_row, [part.name for part in kind])
        parts = [
            (part.name, _converter(part.type, rows[at]) or _as_it_is)
            for at, part in enumerate(kind)
        ]
        return lambda row: make(_optional(convert, row[name]) for name, convert in parts)
    return None


def _each(convert: Converter, values: list[Any]) -> list[Any]:
    return [_optional(convert, value) for value in values]


def _row(names: list[str], values: Iterable[Any]) -> Row:
    return Row(**dict(zip(names, values, strict=True)))


def _optional(convert: Converter, value: Any) -> Any:
    return None if value is None else convert(value)


def _as_it_is(value: Any) -> Any:
    return value


def _timestamp(moment: datetime) -> Timestamp:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return Timestamp(micros=(aware - _EPOCH) // _MICROSECOND)

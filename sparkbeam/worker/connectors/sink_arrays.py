"""Arrow arrays of Python values, checked against the types of a sink's columns.

At each level of a type a value is what the column holds, or an error that names the column. All
values of a level are converted in one call.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from itertools import chain, pairwise
from operator import itemgetter
from types import NoneType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.utils.timestamp import Duration, Timestamp

from sparkbeam.common.display_text import shortened

FIRST_MICROS, LAST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Bounds of the years 1 to 9999, which Python's ``datetime`` has."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WITHOUT_FIELDS = (
    *(bool, int, float, complex, str, bytes, bytearray, memoryview, Decimal, type, NoneType),
    *(date, time, timedelta, Timestamp, Duration, np.generic, np.ndarray, set, frozenset),
)
"""Types whose attributes are not the fields of a row."""


class _WrongType(Exception):
    """A value is of a type that its column does not take."""


_REFUSALS = (_WrongType, pa.ArrowException, TypeError, ValueError, ArithmeticError)


def columns_of_elements(
    elements: Sequence[Any], fields: Iterable[pa.Field], path: str = ""
) -> list[pa.Array]:
    """Return the columns of elements with fields.

    Args:
        elements: rows, NamedTuples or dictionaries, or tuples with a value for each column.
        path: the name of the column that holds them, for messages; empty for rows.

    Raises:
        ValueError: a value does not fit its column.
    """
    found = [*fields]
    columns = _columns([field.name for field in found], elements, path)
    return [
        array_of_values(column, field, _joined(path, field.name))
        for field, column in zip(found, columns, strict=True)
    ]


def array_of_values(values: Sequence[Any], field: pa.Field, path: str) -> pa.Array:
    """Return the values of a column, or of a part of one.

    Args:
        path: its name for messages, such as ``items[].price``.

    Raises:
        ValueError: a value does not fit its column.
    """
    kind, types = field.type, set(map(type, values))
    if NoneType in types and not field.nullable:
        raise ValueError(
            f"the column '{path}' of the schema is of type {_name(kind)} and not nullable, but a "
            "value is None or missing: filter these elements out, or make the column nullable, "
            "without NOT NULL or as Optional[…] in the row type"
        )
    if not pa.types.is_nested(kind):
        return _scalars(values, types, kind, path)
    if NoneType not in types:
        return _nested(values, types, kind, path)
    absent = np.array([value is None for value in values])
    present = [value for value in values if value is not None]
    places = pa.array(np.cumsum(~absent) - 1, pa.int64(), mask=absent)
    return _nested(present, types - {NoneType}, kind, path).take(places)


def _nested(values: Sequence[Any], types: set[type], kind: pa.DataType, path: str) -> pa.Array:
    if pa.types.is_struct(kind):
        columns = columns_of_elements(values, kind, path)
        return pa.Array.from_buffers(kind, len(values), [None], children=columns)
    is_part, exact = (_is_map, _MAPS) if pa.types.is_map(kind) else (_is_list, _LISTS)
    if not types <= exact:
        for value in values:
            if not is_part(value):
                raise _misfit(value, kind, path)
    ends = np.cumsum([0, *map(len, values)], dtype=np.int32)
    if is_part is _is_map:
        fields = [kind.key_field, kind.item_field]
        keys = array_of_values([*chain.from_iterable(values)], fields[0], f"{path}.key")
        _check_keys(keys, ends, f"{path}.key")
        items = [*chain.from_iterable(value.values() for value in values)]
        entries = [keys, array_of_values(items, fields[1], f"{path}.value")]
        inner = pa.Array.from_buffers(pa.struct(fields), len(items), [None], children=entries)
    else:
        inner = array_of_values([*chain.from_iterable(values)], kind.value_field, f"{path}[]")
    buffers = [None, pa.py_buffer(ends)]
    return pa.Array.from_buffers(kind, len(values), buffers, children=[inner])


def _check_keys(keys: pa.Array, ends: np.ndarray[Any, Any], path: str) -> None:
    """Raise a ValueError if different keys of a dictionary are the same in a map."""
    if pa.types.is_string(keys.type) or pa.types.is_integer(keys.type):
        return
    found = [*map(repr, keys.to_pylist())]
    for start, end in pairwise(ends.tolist()):
        if len({*found[start:end]}) < end - start:
            raise ValueError(
                f"the column '{path}' of the schema is of type {_name(keys.type)}, and two keys of "
                "a dictionary become equal: make them different values of this type"
            )


_MAPS, _LISTS = frozenset([dict]), frozenset([list, tuple])


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_list(value: Any) -> bool:
    """Return whether a value has elements; a row, a text and bytes are sequences too."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    without = (tuple, *_WITHOUT_FIELDS)
    return (
        type(value) is tuple
        or isinstance(value, list)
        or (isinstance(value, Sequence) and not isinstance(value, without))
    )


def _columns(names: list[str], values: Sequence[Any], path: str) -> list[Sequence[Any]]:
    types = set(map(type, values))
    kind: Any = types.pop() if len(types) == 1 else None
    if kind is dict:
        return [[value.get(name) for value in values] for name in names]
    places = {name: place for place, name in enumerate(getattr(kind, "_fields", ()))}
    if kind is not None and places.keys() >= set(names):
        return [[*map(itemgetter(places[name]), values)] for name in names]
    if kind is not None and not issubclass(kind, (Mapping, tuple, list, *_WITHOUT_FIELDS)):
        with suppress(Exception):  # A property may raise any; the error of one row is told below.
            return [[getattr(value, name) for value in values] for name in names]
    rows = [_row(value, names, path) for value in values]
    return [*map(list, zip(*rows, strict=True))] if rows else [[] for _ in names]


def _row(value: Any, names: list[str], path: str) -> Sequence[Any]:
    """Return the fields of a value; those of a tuple or list without names by their places."""
    if isinstance(value, Mapping):
        return [value.get(name) for name in names]
    found: dict[str, Any] = {}
    if isinstance(value, tuple | list):
        given = getattr(value, "_fields", None) or getattr(value, "__fields__", None)
        if given is None and len(value) == len(names):
            return value
        found = dict(zip(given or (), value, strict=False))
    elif not isinstance(value, _WITHOUT_FIELDS):
        found = _attributes(value, names, path)
    for name in names:
        if name not in found:
            raise ValueError(
                f"the schema has a column '{_joined(path, name)}', and an element of type "
                f"{_type_name(value)} has no such field"
            )
    return [found[name] for name in names]


def _attributes(value: Any, names: list[str], path: str) -> dict[str, Any]:
    """Return the attributes that a value has."""
    found = {}
    for name in names:
        try:
            found[name] = getattr(value, name)
        except AttributeError:
            continue
        except Exception as error:
            raise ValueError(
                f"the schema has a column '{_joined(path, name)}', and this field of an element of "
                f"type {_type_name(value)} raises {type(error).__name__}: {error}"
            ) from error
    return found


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _scalars(values: Sequence[Any], types: set[type], kind: pa.DataType, path: str) -> pa.Array:
    try:
        if types <= {NoneType, *_scalar_of(kind).exact}:
            return _array(values, kind)
        convert = _scalar_of(kind).convert
        return _array([v if v is None else convert(_plain(v), kind) for v in values], kind)
    except _REFUSALS:
        # One of them does not fit, or Arrow does not take them together.
        return pa.concat_arrays([_single(value, kind, path) for value in values])


def _single(value: Any, kind: pa.DataType, path: str) -> pa.Array:
    try:
        found = value if value is None else _scalar_of(kind).convert(_plain(value), kind)
        return _array([found], kind)
    except _WrongType:
        raise _misfit(value, kind, path) from None
    except _REFUSALS:
        raise _misfit(value, kind, path, _scalar_of(kind).limit) from None


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return Arrow's array of values, or raise an error where it would change one."""
    array = pa.array(values, kind)
    if pa.types.is_float32(kind):
        infinite = pc.is_inf(array)
        if pc.any(infinite).as_py() and infinite != pc.is_inf(pa.array(values, pa.float64())):
            raise OverflowError
    elif pa.types.is_timestamp(kind) and array.null_count < len(array):
        found = pc.min_max(array.cast(pa.int64())).as_py()
        if found["min"] < FIRST_MICROS or found["max"] > LAST_MICROS:
            raise OverflowError
    return array


def _plain(value: Any) -> Any:
    """Return a scalar of numpy as the value of Python that it equals."""
    if not isinstance(value, np.generic):
        return value
    if isinstance(value, np.datetime64 | np.timedelta64):
        return _micros(value)
    found = value.item()
    if isinstance(found, np.floating) and float(found) == found:
        return float(found)  # A long double.
    return found


def _micros(value: Any) -> Any:
    """Return a time of numpy as one of Python, which has microseconds."""
    if np.datetime_data(value.dtype)[0] == "generic":
        raise _WrongType  # It has no unit.
    found = value.item()
    if isinstance(found, int):
        cut = value.astype(f"{value.dtype.kind}8[us]")
        found = cut.item() if cut == value else None
    if not isinstance(found, date | timedelta):
        raise _WrongType
    return found


def _of(*types: type) -> Callable[[Any, pa.DataType], Any]:
    """Return the conversion of values of types that Arrow takes."""

    def convert(value: Any, kind: pa.DataType) -> Any:
        if isinstance(value, types):
            return value
        raise _WrongType

    return convert


def _integer(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _WrongType


def _float(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, float):
        return value
    whole = _integer(value, kind)
    found = float(np.float32(whole) if pa.types.is_float32(kind) else whole)
    if found != whole:
        raise OverflowError
    return found


def _decimal(value: Any, kind: pa.DataType) -> Any:
    whole = value if isinstance(value, Decimal) else Decimal(_integer(value, kind))
    exact = Context(prec=kind.precision, traps=[Inexact, InvalidOperation])
    return whole.quantize(Decimal(1).scaleb(-kind.scale), context=exact)


def _binary(value: Any, kind: pa.DataType) -> Any:
    return bytes(_of(bytes, bytearray, memoryview)(value, kind))


def _date(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, Timestamp):
        return (_EPOCH + timedelta(microseconds=value.micros)).date()
    return _datetime(value).date() if isinstance(value, datetime) else _of(date)(value, kind)


def _timestamp(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, Timestamp):
        return value.micros
    found = _datetime(value)
    if getattr(found, "nanosecond", 0):
        raise OverflowError
    return found if kind.tz is not None else found.replace(tzinfo=None)


def _datetime(value: Any) -> datetime:
    if isinstance(value, datetime) and value == value:  # NaT of pandas is not.
        return value
    raise _WrongType


def _interval(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, Duration):
        return timedelta(microseconds=value.micros)
    if getattr(value, "nanoseconds", 0):
        raise OverflowError
    return _of(timedelta)(value, kind)


@dataclass(frozen=True)
class _Scalar:
    """Values of a type without parts.

    Attributes:
        takes: the values that it takes, for messages.
        convert: makes a value of Python one that Arrow takes.
        exact: the types, beside that of None, whose values Arrow takes or refuses rightly.
        limit: the reason for messages if a value of a right type does not fit.
    """

    takes: str
    convert: Callable[[Any, pa.DataType], Any]
    exact: tuple[type, ...] = ()
    limit: str = "is out of range"


_YEARS = "is outside the years 1 to 9999, or between two microseconds"
_RANGE = "is out of range, or between two microseconds"
_INTEGERS = (*(int, np.int8, np.int16, np.int32, np.int64), *(np.uint8, np.uint16, np.uint32))
_FLOATS = (float, np.float16, np.float32, np.float64)
_WHOLE = _Scalar("an int", _integer, _INTEGERS)
_REAL = _Scalar("a float", _float, (int, *_FLOATS), "exceeds its range or precision")
_SCALARS: Mapping[int, _Scalar] = {
    **{kind().id: _WHOLE for kind in (pa.int8, pa.int16, pa.int32, pa.int64)},
    **{kind().id: _REAL for kind in (pa.float32, pa.float64)},
    pa.bool_().id: _Scalar("a bool", _of(bool), (bool, np.bool_)),
    pa.string().id: _Scalar("a str", _of(str), (str,), "has an unpaired surrogate"),
    pa.binary().id: _Scalar("bytes", _binary, (bytes, bytearray)),
    pa.decimal128(1).id: _Scalar(
        "a Decimal", _decimal, (Decimal,), "has too many digits, or is not finite"
    ),
    pa.date32().id: _Scalar("a date, datetime or Timestamp", _date, (date,), _YEARS),
    pa.timestamp("us").id: _Scalar("a Timestamp or datetime", _timestamp, (datetime,), _YEARS),
    pa.duration("us").id: _Scalar("a timedelta or Duration", _interval, limit=_RANGE),
    pa.time64("ns").id: _Scalar("a time", _of(time), (time,)),
    pa.null().id: _Scalar("None", _of(NoneType)),
}
"""By the number of Arrow's type."""
_LOCAL = _Scalar("a Timestamp or datetime", _timestamp, limit=_YEARS)


def _scalar_of(kind: pa.DataType) -> _Scalar:
    is_local = pa.types.is_timestamp(kind) and kind.tz is None
    return _LOCAL if is_local else _SCALARS[kind.id]


def _misfit(value: Any, kind: pa.DataType, path: str, limit: str = "") -> ValueError:
    """Return the error for a value that does not fit its column."""
    if pa.types.is_map(kind):
        takes = "a dictionary"
    elif pa.types.is_list(kind):
        takes = "a list"
    else:
        takes = _scalar_of(kind).takes
    problem = f"a value of type {_type_name(value)} {limit or 'does not fit'}"
    return ValueError(
        f"the column '{path}' of the schema is of type {_name(kind)}, and {problem}: give {takes}, "
        "or change the type of the column"
    )


def _type_name(value: Any) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def _name(kind: pa.DataType) -> str:
    """Return the name of a type in Spark."""
    from pyspark.sql.pandas.types import from_arrow_type  # Needed for errors alone.

    return shortened(from_arrow_type(kind).simpleString(), 120)

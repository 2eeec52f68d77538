"""Schemas and values made at random, and what a sink writes of them, in plain Python."""

import struct
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from random import Random
from typing import Any

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow as pa
import pyspark
from apache_beam.utils.timestamp import Duration, Timestamp
from pyspark.sql import types as st
from sink_values import EAST, UNSHIPPED, VALUES

from sparkbeam.columns.python_types import RecordShape, shape_of
from sparkbeam.connectors.schemas import arrow_schema
from sparkbeam.worker.connectors.sink_cells import PackArrow, rows_of
from sparkbeam.worker.connectors.sink_columns import columns_of
from sparkbeam.worker.value_columns import column_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BITS: dict[type, int] = {st.ByteType: 8, st.ShortType: 16, st.IntegerType: 32, st.LongType: 64}
_WORDS = ("", "a", "zoë", "a\0b", "😀" * 3, "NULL", "1")


class RefusedError(Exception):
    """A column does not take a value."""


def written(value: Any, kind: st.DataType, *, nullable: bool = True) -> Any:
    """Return what is written of a value: Python's plain value of the type.

    Raises:
        RefusedError: it is an error.
    """
    if value is None:
        if nullable:
            return None
        raise RefusedError
    match kind:
        case st.StructType():
            return _struct(value, kind)
        case st.ArrayType():
            return [
                written(part, kind.elementType, nullable=kind.containsNull) for part in _list(value)
            ]
        case st.MapType():
            if not isinstance(value, Mapping):
                raise RefusedError
            found = {
                written(key, kind.keyType, nullable=False): written(
                    item, kind.valueType, nullable=kind.valueContainsNull
                )
                for key, item in value.items()
            }
            if len(found) < len(value):
                raise RefusedError
            return found
    if isinstance(value, np.datetime64 | np.timedelta64):
        value = _of_numpy(value)
    elif isinstance(value, np.longdouble):
        value = float(value)
    elif isinstance(value, np.generic):
        value = value.item()
    return _SCALARS[type(kind)](value, kind)


def _list(value: Any) -> list[Any]:
    is_list = isinstance(value, list | range | deque) or type(value) is tuple
    is_array = type(value).__name__ == "array" or (isinstance(value, np.ndarray) and value.ndim)
    if not is_list and not is_array:
        raise RefusedError
    return [*value]


def _struct(value: Any, kind: st.StructType) -> dict[str, Any]:
    if isinstance(value, Mapping):
        parts = {name: value.get(name) for name in kind.names}
    elif isinstance(value, pyspark.sql.Row) and hasattr(value, "__fields__"):
        parts = value.asDict()
    elif hasattr(value, "_asdict"):
        parts = value._asdict()
    elif type(value) in (tuple, list):
        if len(value) != len(kind):
            raise RefusedError
        parts = dict(zip(kind.names, value, strict=True))
    elif type(value).__name__ == "Record":
        parts = vars(value)
    else:
        raise RefusedError
    if not parts.keys() >= set(kind.names):
        raise RefusedError
    return {
        field.name: written(parts[field.name], field.dataType, nullable=field.nullable)
        for field in kind
    }


def _of_numpy(value: Any) -> Any:
    if np.datetime_data(value.dtype)[0] == "generic":
        raise RefusedError
    micros = value.astype("M8[us]" if value.dtype.kind == "M" else "m8[us]")
    if np.isnat(value) or micros != value:
        raise RefusedError
    return micros.item() if value.dtype != np.dtype("M8[D]") else value.item()


def _checked(value: Any, *kinds: type, but: tuple[type, ...] = ()) -> Any:
    if not isinstance(value, kinds) or isinstance(value, but) or value is pd.NaT:
        raise RefusedError
    return value


def _integer(value: Any, kind: st.DataType) -> int:
    _checked(value, int, but=(bool,))
    bound = 1 << (_BITS[type(kind)] - 1)
    if not -bound <= value < bound:
        raise RefusedError
    return int(value)


def _double(value: Any, kind: st.DataType) -> float:
    _checked(value, int, float, but=(bool,))
    form = "<f" if isinstance(kind, st.FloatType) else "<d"
    try:
        (found,) = struct.unpack(form, struct.pack(form, value))
    except (OverflowError, struct.error):
        raise RefusedError from None
    if isinstance(value, int) and found != value:
        raise RefusedError
    return float(found)


def _decimal(value: Any, kind: Any) -> Decimal:
    number = Decimal(_checked(value, int, Decimal, but=(bool,)))
    if not number.is_finite():
        raise RefusedError
    scaled = number.scaleb(kind.scale)
    if scaled != scaled.to_integral_value() or abs(scaled) >= 10**kind.precision:
        raise RefusedError
    return number


def _text(value: Any, kind: st.DataType) -> str:
    found = str.__str__(_checked(value, str))
    if any("\ud800" <= letter <= "\udfff" for letter in found):
        raise RefusedError
    return found


def _instant(value: Timestamp) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=value.micros)
    except OverflowError:
        raise RefusedError from None


def _date(value: Any, kind: st.DataType) -> date:
    if isinstance(value, Timestamp):
        value = _instant(value)
    _checked(value, date)
    return date(value.year, value.month, value.day)


def _timestamp(value: Any, kind: st.DataType) -> datetime:
    if isinstance(value, Timestamp):
        value = _instant(value)
    _checked(value, datetime)
    if isinstance(value, pd.Timestamp) and value.nanosecond:
        raise RefusedError
    if isinstance(kind, st.TimestampNTZType):
        return datetime.combine(value.date(), value.time())
    try:
        found = (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise RefusedError from None
    return datetime.combine(found.date(), found.time(), UTC)


def _interval(value: Any, kind: st.DataType) -> timedelta:
    if isinstance(value, Duration):
        return timedelta(microseconds=value.micros)
    _checked(value, timedelta)
    if (isinstance(value, pd.Timedelta) and value.nanoseconds) or value.days > 10**8:
        raise RefusedError
    return timedelta(value.days, value.seconds, value.microseconds)


_SCALARS: dict[type, Callable[[Any, Any], Any]] = {
    **dict.fromkeys((st.ByteType, st.ShortType, st.IntegerType, st.LongType), _integer),
    **dict.fromkeys((st.FloatType, st.DoubleType), _double),
    st.BooleanType: lambda value, _: _checked(value, bool),
    st.DecimalType: _decimal,
    st.StringType: _text,
    st.BinaryType: lambda value, _: bytes(_checked(value, bytes, bytearray, memoryview)),
    st.DateType: _date,
    st.TimestampType: _timestamp,
    st.TimestampNTZType: _timestamp,
    st.DayTimeIntervalType: _interval,
    st.NullType: lambda value, _: _checked(value),
}


@dataclass(frozen=True)
class Case:
    """Rows for a sink."""

    schema: st.StructType
    rows: list[dict[str, Any]]

    def expected(self) -> list[dict[str, Any]] | None:
        """Return the rows that are written; None if there is an error."""
        try:
            return [written(row, self.schema) for row in self.rows]
        except RefusedError:
            return None


def case(random: Random, *, odd: float = 0.01, columns: int = 3, rows: int = 9) -> Case:
    """Return rows at random.

    Args:
        random: the random numbers.
        odd: the share of values that may be of any kind.
        columns: the largest number of columns.
        rows: likewise of rows.
    """
    schema = st.StructType()
    for number in range(random.randint(1, columns)):
        schema.add(f"c{number}", _type(random, 3), random.random() < 0.8)
    values = _Values(random, odd if random.random() < 0.5 else 0)
    found = [
        {field.name: values.of(field.dataType, nullable=field.nullable) for field in schema}
        for _ in range(random.randint(0, rows))
    ]
    return Case(schema, found)


def _type(random: Random, depth: int) -> st.DataType:
    nullable = random.random() < 0.7
    match random.randrange(8) if depth else 7:
        case 0 | 1:
            return st.ArrayType(_type(random, depth - 1), nullable)
        case 2:
            key = random.choice((st.StringType(), st.LongType(), st.DateType()))
            return st.MapType(key, _type(random, depth - 1), nullable)
        case 3:
            found = st.StructType()
            for name in random.sample("abcde", random.randint(1, 3)):
                found.add(name, _type(random, depth - 1), random.random() < 0.7)
            return found
    kind = random.choice([kind for kind in _SCALARS if kind is not st.NullType])
    return st.DecimalType(*random.choice(_DECIMALS)) if kind is st.DecimalType else kind()


_DECIMALS = ((1, 0), (5, 5), (10, 2), (38, 18), (38, 0))


class _Values:
    """Values for types.

    Args:
        random: the random numbers.
        odd: the share of any values.
    """

    def __init__(self, random: Random, odd: float) -> None:
        self._random = random
        self._odd = odd

    def of(self, kind: st.DataType, *, nullable: bool) -> Any:
        """Return a value, mostly one that the type takes."""
        chance = self._random.random()
        if chance < self._odd:
            return self._random.choice([None, *_SHIPPED.values()])
        if nullable and chance > 0.85:
            return None
        match kind:
            case st.StructType():
                return self._struct(kind)
            case st.ArrayType():
                found = [
                    self.of(kind.elementType, nullable=kind.containsNull)
                    for _ in range(self._random.randrange(4))
                ]
                return self._random.choice((list, tuple, deque))(found)
            case st.MapType():
                return {
                    self._scalar(kind.keyType): self.of(
                        kind.valueType, nullable=kind.valueContainsNull
                    )
                    for _ in range(self._random.randrange(3))
                }
        return self._scalar(kind)

    def _struct(self, kind: st.StructType) -> Any:
        fields = {f.name: self.of(f.dataType, nullable=f.nullable) for f in kind}
        match self._random.randrange(5):
            case 0:
                return fields
            case 1:
                return tuple(fields.values())
            case 2:
                return pyspark.sql.Row(**fields)
            case 3:
                names = self._random.sample([*fields], len(fields))
                return {"more": 1} | {name: fields[name] for name in names}
        return beam.Row(**fields)

    def _scalar(self, kind: Any) -> Any:
        random = self._random
        match kind:
            case st.ByteType() | st.ShortType() | st.IntegerType() | st.LongType():
                bits = random.randint(1, _BITS[type(kind)])
                number = random.getrandbits(bits) - (1 << (bits - 1))
                return random.choice((int, np.int64))(number)
            case st.FloatType() | st.DoubleType():
                real = random.choice((random.random(), random.gauss(0, 1e9), 0.0, 2.0**24))
                return random.choice((float, np.float32, np.float64))(real)
            case st.BooleanType():
                return random.choice((True, False, np.True_))
            case st.DecimalType():
                digits = random.randrange(10 ** random.randint(1, kind.precision))
                return Decimal(random.choice((-1, 1)) * digits).scaleb(-kind.scale)
            case st.StringType():
                return random.choice(_WORDS)
            case st.BinaryType():
                return random.choice((bytes, bytearray))(random.randbytes(random.randrange(4)))
        micros = random.randrange(-(10**15), 10**15)
        moment = _EPOCH + timedelta(microseconds=micros)
        local = random.choice((moment, moment.astimezone(EAST), moment.replace(tzinfo=None)))
        match kind:
            case st.DateType():
                return random.choice((moment.date(), local, Timestamp(micros=micros)))
            case st.TimestampType() | st.TimestampNTZType():
                return random.choice((local, Timestamp(micros=micros), pd.Timestamp(local)))
        return random.choice((timedelta(microseconds=micros), Duration(micros=micros)))


_SHIPPED = {words: value for words, value in VALUES.items() if words not in UNSHIPPED}


@dataclass
class Figures:
    """What has been tried.

    Attributes:
        cases: schemas with rows.
        rows: rows that fit.
        refused: cases with a value that does not fit.
        columns: cases that have been packed as columns, too.
        spark: cases that Spark has written.
    """

    cases: int = 0
    rows: int = 0
    refused: int = 0
    columns: int = 0
    spark: int = 0


def try_case(made: Case, figures: Figures) -> str | None:
    """Return what differs from the reference if rows are packed for a sink."""
    schema, expected = arrow_schema(made.schema), made.expected()
    figures.cases += 1
    figures.refused += expected is None
    try:
        batch = rows_of(PackArrow(schema)._packed(made.rows), schema)
        batch.validate(full=True)
        found = batch.to_pylist(maps_as_pydicts="strict")
    except ValueError as error:
        is_named = any(f"'{name}" in str(error) for name in made.schema.names)
        return None if expected is None and is_named else f"fails: {error}"
    if expected is None:
        return f"packs what it does not take: {found}"
    figures.rows += len(found)
    if repr(comparable(found)) != repr(comparable(expected)):
        return f"packs {found}\nand not {expected}"
    return _as_columns(batch, figures)


def _as_columns(batch: pa.RecordBatch, figures: Figures) -> str | None:
    """Return what differs if the rows are columns of dictionaries."""
    shapes = tuple(shape_of(array.type) for array in batch.columns)
    shape = RecordShape(dict, tuple(batch.schema.names), shapes)
    column = column_of(batch.to_struct_array(), shape)
    for other in (batch.schema, _nullable(batch.schema), _narrow(batch.schema)):
        found = columns_of(column, other)
        if found is None:
            continue
        figures.columns += 1
        packed = rows_of(PackArrow(other)._packed(column.values()), other)
        if not pa.record_batch(found, schema=other).equals(packed):
            return f"packs columns as {found}\nand not as {packed}"
    return None


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(nullable=True) for field in schema])


def _narrow(schema: pa.Schema) -> pa.Schema:
    """Return a schema with types that have less room, or another kind of values."""
    others = {pa.int64(): pa.int16(), pa.float64(): pa.float32(), pa.int32(): pa.float64()}
    others |= {pa.int16(): pa.date32(), pa.int8(): pa.timestamp("us", "UTC")}
    return pa.schema([field.with_type(others.get(field.type, field.type)) for field in schema])


def comparable(value: Any) -> Any:
    """Return a value with one form of instants, decimals and dictionaries, for its text."""
    if isinstance(value, dict):
        return sorted(
            ((comparable(key), comparable(part)) for key, part in value.items()), key=repr
        )
    if isinstance(value, list):
        return [*map(comparable, value)]
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return Context(prec=40).normalize(value) if isinstance(value, Decimal) else value

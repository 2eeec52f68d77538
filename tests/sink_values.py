"""What each of Spark's types takes, as a table of types and values.

:data:`VALUES` has values of all kinds. A type takes those that :data:`TAKEN` names for it, as the
values that it says, and no others. :func:`wrapped` puts types and values into arrays, maps and
structs.
"""

import array
import collections
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pandas as pd
import pyspark
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, Timestamp
from pyspark.sql import types as st


class Ratio(float):
    """A float by inheritance."""


class Level(IntEnum):
    """An int by inheritance."""

    LOW = 3


class Colour(StrEnum):
    """A str by inheritance."""

    RED = "red"


class Pair(NamedTuple):
    """A row with the fields of a struct in another order, and one more."""

    b: Any
    more: Any
    a: Any


class Half(NamedTuple):
    """A row that lacks a field."""

    a: Any


@dataclass(frozen=True)
class Record:
    """A row that is a dataclass."""

    b: Any
    a: Any


EAST = timezone(timedelta(hours=2))
NANOS = "2024-02-03T04:05:06.000007001"

VALUES: dict[str, Any] = {
    "True": True,
    "np.True": np.bool_(True),
    "5": 5,
    "-129": -129,
    "300": 300,
    "1<<31": 1 << 31,
    "(1<<53)+1": (1 << 53) + 1,
    "1<<60": 1 << 60,
    "1<<63": 1 << 63,
    "10**12": 10**12,
    "10**400": 10**400,
    "Level.LOW": Level.LOW,
    "np.int8(5)": np.int8(5),
    "np.int64(300)": np.int64(300),
    "np.uint8(200)": np.uint8(200),
    "np.uint64(1<<63)": np.uint64(1 << 63),
    "2.0": 2.0,
    "2.7": 2.7,
    "Ratio(2.7)": Ratio(2.7),
    "1e300": 1e300,
    "-1e300": -1e300,
    "1e-300": 1e-300,
    "1.6e9": 1.6e9,
    "inf": float("inf"),
    "np.float16(2.5)": np.float16(2.5),
    "np.float32(0.1)": np.float32(0.1),
    "np.float64(1e300)": np.float64(1e300),
    "np.longdouble(2.5)": np.longdouble(2.5),
    "Decimal(2)": Decimal(2),
    "Decimal(2.7)": Decimal("2.7"),
    "Decimal(2.705)": Decimal("2.705"),
    "Decimal(1E2)": Decimal("1E+2"),
    "Decimal(12345678.9000)": Decimal("12345678.9000"),
    "Decimal(123456789)": Decimal(123456789),
    "Decimal(NaN)": Decimal("NaN"),
    "Decimal(inf)": Decimal("inf"),
    "Fraction(7, 2)": Fraction(7, 2),
    "Fraction(4, 2)": Fraction(4, 2),
    "1j": 1j,
    "text": "text",
    "5 as text": "5",
    "date as text": "2024-02-03",
    "nul": "a\0ü",
    "surrogate": "\ud800",
    "np.str": np.str_("text"),
    "Colour.RED": Colour.RED,
    "bytes": b"\xff\0",
    "bytearray": bytearray(b"\xff\0"),
    "memoryview": memoryview(b"\xff-\0")[::2],
    "np.bytes": np.bytes_(b"\xff-"),
    "Timestamp": Timestamp(1706933106, 7),
    "Timestamp before 1970": Timestamp(-1),
    "Timestamp 10000": Timestamp(253_402_300_800),
    "MIN_TIMESTAMP": MIN_TIMESTAMP,
    "MAX_TIMESTAMP": MAX_TIMESTAMP,
    "Duration": Duration(5.75),
    "date": date(2024, 2, 3),
    "naive": datetime(2024, 2, 3, 4, 5, 6, 7),
    "aware": datetime(2024, 2, 3, 4, 5, 6, 7, UTC),
    "east": datetime(2024, 2, 3, 1, 5, 6, 7, EAST),
    "year 0": datetime(1, 1, 1, tzinfo=EAST),
    "pd.Timestamp": pd.Timestamp("2024-02-03T04:05:06.000007"),
    "pd.Timestamp nanos": pd.Timestamp(NANOS),
    "pd.NaT": pd.NaT,
    "pd.NA": pd.NA,
    "np.datetime64 day": np.datetime64("2024-02-03"),
    "np.datetime64": np.datetime64("2024-02-03T04:05:06.000007", "us"),
    "np.datetime64 ns": np.datetime64("2024-02-03T04:05:06.000007", "ns"),
    "np.datetime64 nanos": np.datetime64(NANOS, "ns"),
    "np.NaT": np.datetime64("NaT"),
    "timedelta": timedelta(1, 2, 3),
    "timedelta.max": timedelta.max,
    "pd.Timedelta nanos": pd.Timedelta(1500),
    "np.timedelta64": np.timedelta64(5, "s"),
    "np.timedelta64 no unit": np.timedelta64(5),
    "np.timedelta64 nanos": np.timedelta64(1500, "ns"),
    "time": time(1, 2, 3, 4),
    "list": [1, None],
    "list of one": [1],
    "list of texts": ["a", "b"],
    "floats": [2.7],
    "tuple": (1, 2),
    "tuple of three": (1, 2, 3),
    "set": {1},
    "range": range(2),
    "deque": collections.deque([1]),
    "array": array.array("i", [1, 2]),
    "np.array": np.array([1, 2]),
    "np.array of floats": np.array([2.5]),
    "np.array of times": np.array(["2024-02-03"], "M8[ns]"),
    "np.array without axes": np.array(1),
    "iterator": iter([1]),
    "keys": {1: 2}.keys(),
    "dict": {"a": 1, "b": 2},
    "dict with more": {"b": 2, "c": 3, "a": 1},
    "dict with less": {"b": 2},
    "dict of numbers": {1: 2},
    "dict of texts": {"a": "b"},
    "mapping": types.MappingProxyType({"a": 1, "b": 2}),
    "pairs": [("a", 1), ("b", 2)],
    "Row": beam.Row(b=2, a=1),
    "Row of Spark": pyspark.sql.Row(b=2, a=1),
    "Row with less": beam.Row(a=1),
    "Pair": Pair(2, 3, 1),
    "Half": Half(1),
    "record": Record(2, 1),
    "object": object(),
    "function": len,
}
"""Values by their names."""
UNSHIPPED = frozenset(["memoryview", "mapping", "iterator", "keys"])
"""Those that cannot be pickled."""

MOMENT = datetime(2024, 2, 3, 4, 5, 6, 7)
_INTS = {"300": 300, "-129": -129, "np.int64(300)": 300, "np.uint8(200)": 200}
_SMALL = {**dict.fromkeys(("5", "np.int8(5)"), 5), "Level.LOW": 3}
_REALS = {
    **dict.fromkeys(("Ratio(2.7)", "2.7"), 2.7),
    **{"2.0": 2.0, "inf": float("inf"), "1.6e9": 1.6e9, "1<<31": 2.0**31, "1<<60": 2.0**60},
    **{"np.float16(2.5)": 2.5, "np.longdouble(2.5)": 2.5, "1<<63": 2.0**63},
    **{"np.float32(0.1)": float(np.float32(0.1)), "np.uint64(1<<63)": 2.0**63},
}
_INSTANTS = {
    **dict.fromkeys(("Timestamp", "naive", "aware", "pd.Timestamp"), MOMENT),
    **dict.fromkeys(("np.datetime64", "np.datetime64 ns"), MOMENT),
    "Timestamp before 1970": datetime(1969, 12, 31, 23, 59, 59),
}
_DAYS = (
    *("date", "Timestamp", "naive", "aware", "east", "pd.Timestamp", "pd.Timestamp nanos"),
    *("np.datetime64 day", "np.datetime64", "np.datetime64 ns"),
)
_ROW = {"a": 1, "b": 2}
_ROWS = (
    *("dict", "dict with more", "mapping", "tuple", "record"),
    *("Row", "Row of Spark", "Pair"),
)

TAKEN: dict[str, tuple[st.DataType, dict[str, Any]]] = {
    "boolean": (st.BooleanType(), {"True": True, "np.True": True}),
    "tinyint": (st.ByteType(), _SMALL),
    "smallint": (st.ShortType(), _SMALL | _INTS),
    "int": (st.IntegerType(), _SMALL | _INTS),
    "bigint": (
        st.LongType(),
        _SMALL
        | _INTS
        | {"1<<31": 1 << 31, "10**12": 10**12, "1<<60": 1 << 60, "(1<<53)+1": (1 << 53) + 1},
    ),
    "float": (
        st.FloatType(),
        _SMALL
        | _INTS
        | _REALS
        | {"2.7": float(np.float32(2.7)), "Ratio(2.7)": float(np.float32(2.7)), "1e-300": 0.0},
    ),
    "double": (
        st.DoubleType(),
        _SMALL
        | _INTS
        | _REALS
        | {"10**12": 1e12, "1e300": 1e300, "-1e300": -1e300, "1e-300": 1e-300}
        | {"np.float64(1e300)": 1e300},
    ),
    "decimal(10,2)": (
        st.DecimalType(10, 2),
        {name: Decimal(number) for name, number in (_SMALL | _INTS).items()}
        | {"Decimal(2)": Decimal(2), "Decimal(2.7)": Decimal("2.7"), "Decimal(1E2)": Decimal(100)}
        | {"Decimal(12345678.9000)": Decimal("12345678.9")},
    ),
    "string": (
        st.StringType(),
        {"text": "text", "5 as text": "5", "date as text": "2024-02-03", "nul": "a\0ü"}
        | {"np.str": "text", "Colour.RED": "red"},
    ),
    "binary": (
        st.BinaryType(),
        dict.fromkeys(("bytes", "bytearray", "memoryview"), b"\xff\0") | {"np.bytes": b"\xff-"},
    ),
    "date": (
        st.DateType(),
        dict.fromkeys(_DAYS, date(2024, 2, 3))
        | {"Timestamp before 1970": date(1969, 12, 31), "year 0": date(1, 1, 1)},
    ),
    "timestamp": (
        st.TimestampType(),
        {name: moment.replace(tzinfo=UTC) for name, moment in _INSTANTS.items()}
        | {"east": datetime(2024, 2, 2, 23, 5, 6, 7, UTC)},
    ),
    "timestamp_ntz": (
        st.TimestampNTZType(),
        _INSTANTS | {"east": datetime(2024, 2, 3, 1, 5, 6, 7), "year 0": datetime(1, 1, 1)},
    ),
    "interval": (
        st.DayTimeIntervalType(),
        {"timedelta": timedelta(1, 2, 3), "Duration": timedelta(0, 5, 750_000)}
        | {"np.timedelta64": timedelta(0, 5)},
    ),
    "void": (st.NullType(), {}),
    "array<int>": (
        st.ArrayType(st.IntegerType()),
        {"list": [1, None], "tuple": [1, 2], "tuple of three": [1, 2, 3], "range": [0, 1]}
        | {"deque": [1], "array": [1, 2], "np.array": [1, 2], "list of one": [1]},
    ),
    "map<string,int>": (
        st.MapType(st.StringType(), st.IntegerType()),
        {"dict": _ROW, "mapping": _ROW, "dict with more": _ROW | {"c": 3}}
        | {"dict with less": {"b": 2}},
    ),
    "struct<a:int,b:int>": (
        st.StructType().add("a", "integer").add("b", "integer"),
        dict.fromkeys(_ROWS, _ROW)
        | {"dict with less": {"a": None, "b": 2}, "dict of numbers": {"a": None, "b": None}}
        | {"list": {"a": 1, "b": None}},
    ),
}
"""Spark's types by their names, with the values that they take: the name, and what is written."""


@dataclass(frozen=True)
class Wrap:
    """A type around another.

    Attributes:
        name: its name.
        path: what it adds to the name of a column.
        type: makes the type.
        value: makes a value of it.
    """

    name: str
    path: str
    type: Callable[[st.DataType, bool], st.DataType]
    value: Callable[[Any], Any]

    def __repr__(self) -> str:
        return self.name


WRAPS = (
    Wrap("array", "[]", st.ArrayType, lambda value: [value, value]),
    Wrap(
        "map",
        ".value",
        lambda kind, nullable: st.MapType(st.StringType(), kind, nullable),
        lambda value: {"k": value},
    ),
    Wrap(
        "struct",
        ".x",
        lambda kind, nullable: st.StructType().add("x", kind, nullable),
        lambda value: {"x": value},
    ),
)


def wraps() -> Iterator[tuple[Wrap, ...]]:
    """Combinations of up to three, the innermost first."""
    for depth in range(4):
        yield from product(WRAPS, repeat=depth)


def within(
    around: tuple[Wrap, ...], kind: st.DataType, *, nullable: bool = True
) -> tuple[st.StructType, str]:
    """Return the schema of a column ``c`` with a type within others, and the path to the type."""
    path = ""
    for wrap in around:
        kind, path, nullable = wrap.type(kind, nullable), f"{wrap.path}{path}", True
    return st.StructType([st.StructField("c", kind, nullable)]), f"c{path}"


def wrapped(around: tuple[Wrap, ...], value: Any) -> Any:
    """Return the value of the column with a value of the inner type."""
    for wrap in around:
        value = wrap.value(value)
    return value

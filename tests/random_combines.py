"""Keys and values of random aggregations, what aggregates them, and what comes of it in Python."""

import enum
import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.coders import FastPrimitivesCoder
from apache_beam.transforms import combiners, cy_combiners
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp
from random_pipelines import Longest, Pairs, at_the_end

from sparkbeam.wire.rounding import coded_micros


class Place(NamedTuple):
    """A key of columns, equal to a tuple."""

    name: str
    number: int


class Level(enum.IntEnum):
    """Equal to an integer."""

    ONE = 1

    def __repr__(self) -> str:
        return f"Level.{self.name}"


HUGE = 1 << 62
OTHER_NAN = struct.unpack(">d", bytes.fromhex("7ff8000000000001"))[0]

KEYS: dict[str, tuple[Any, ...]] = {
    "int": (0, -1, 7, 300),
    "huge": (HUGE, -(1 << 63), 5),
    "far": (0, 1 << 40, -(1 << 40)),
    "text": ("a", "", "zoë", "\0", "k" * 150),
    "bytes": (b"", b"\0", b"k" * 70),
    "maybe int": (None, 0, 7),
    "maybe text": (None, "", "a"),
    "float": (0.5, -1.25, float("inf")),
    "odd float": (0.0, -0.0, math.nan, OTHER_NAN, 1.5),
    "bool": (True, False),
    "None": (None,),
    "nothing": ((),),
    "pair": (("a", 1), ("a", 2), ("", 1), ("ä", 300)),
    "maybe pair": (("a", None), ("a", 2), (None, 1), (None, None)),
    "deep": (("a", (1, ())), ("a", (2, ())), ("", (1, ()))),
    "place": (Place("a", 1), Place("a", 2), Place("", -(1 << 63))),
    "many": tuple(range(-20, 40)),
    "mixed": (0, "0", b"0", None, (0, "0"), 1.5),
    "lengths": ((1,), (1, 2), ()),
    "beyond": (1, 1 << 70, -3),
    "equal": (
        *(0, False, 0.0, -0.0, 1, True, 1.0, Level.ONE, None, "", b"", "1", b"1", (), (0.0,)),
        *((1, 2), (1.0, 2), (True, 2), ((1, 2), 3), ((1.0, 2), 3), Place("a", 1), ("a", 1)),
    ),
}
"""By kind; of tuples the parts are columns. Of the last kind Python says that many are equal."""

VALUES: dict[str, tuple[Any, ...]] = {
    "small": tuple(range(-9, 10)),
    "int": (1, -7, 3, 1 << 61, HUGE, -(1 << 63)),
    "large": (1, -7, 1 << 61),
    "float": (0.5, -3.25, 2.0**40, 1e6, float("inf")),
    "fraction": (0.1, 0.7, -3.3, 1e16, 1e-9),
    "odd float": (math.nan, -0.0, 0.0, 0.1, float("-inf"), 1e300),
    "text": ("", "a", "aa", "b\0", "é", "\U0001f600", "w" * 200),
    "bytes": (b"", b"\0", b"\xff", b"w" * 200),
    "maybe": (None, 1, 2, 0),
    "bool": (True, False),
    "decimal": tuple(map(Decimal, ("0.00", "1.10", "-7.25", "92233720368547758.07"))),
    "wide decimal": tuple(map(Decimal, ("1.1", "12345678901234567890.5"))),
    "time": tuple(Timestamp(micros=micros) for micros in (-1, 0, 1_000_001, 1 << 50)),
    "pair": ((1, 0.5), (-7, 2.0), (1 << 61, -0.25), (3, 1e6)),
    "row": (beam.Row(a=1, b="x"), beam.Row(a=-7, b=""), beam.Row(a=1 << 61, b="é")),
    "several": (1, -7, "a", "é", 0.5, -2.25, None),
    "beyond": (1, 1 << 70, -3),
    "objects": ([1, 2], {"k": None}, None, "text", 2.5),
}
"""By kind. Of some, sums depend on their order: of fractions and odd floats.

Several types may be in one column of each block, which then has values of one of them.
"""

OBJECTS = {"mixed", "lengths", "beyond", "equal", "objects"}
"""Kinds that are no columns."""

ORDERED = {"fraction", "odd float"}

_PLAIN_TYPES: dict[str, Any] = {
    **dict.fromkeys(("int", "huge", "far", "many", "small", "large"), int),
    **{kind.__name__: kind for kind in (bytes, float, bool)},
    "fraction": float,
    "odd float": float,
    "text": str,
}
KEY_TYPES = _PLAIN_TYPES | {
    "pair": tuple[str, int],
    "maybe pair": tuple[str | None, int | None],
    "maybe int": int | None,
    "place": Place,
}
VALUE_TYPES = _PLAIN_TYPES | {"pair": tuple[int, float], "maybe": int | None}
"""Declared types by kind; others are declared as any."""

_ENCODE = FastPrimitivesCoder().encode


def name_of(key: Any) -> bytes:
    """A name that differs for keys of different encodings."""
    return bytes(_ENCODE(key))


class Arrays(beam.CombineFn):
    """Adds numbers up in an array."""

    def create_accumulator(self) -> Any:
        return np.zeros(2)

    def add_input(self, accumulator: Any, element: int) -> Any:
        return accumulator + np.array([element, 1])

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        return sum(accumulators)

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator.tolist()


def several(*fns: Any) -> Callable[[], beam.CombineFn]:
    return lambda: combiners.SingleInputTupleCombineFn(*fns)


ALL = frozenset(VALUES)
WHOLE = frozenset({"small", "int", "large", "bool", "beyond"})
EXACT = WHOLE | {"float"}
DECIMALS = frozenset({"decimal", "wide decimal"})
TIMES = DECIMALS | {"time"}
TEXTS = frozenset({"text", "bytes"})
PAIRS = frozenset({"pair"})

COMBINES: dict[str, tuple[Callable[[], Any], frozenset[str]]] = {
    "sum": (lambda: sum, EXACT | DECIMALS | {"fraction"}),
    "min": (lambda: min, EXACT | TEXTS | TIMES | ORDERED),
    "max": (lambda: max, EXACT | TEXTS | TIMES | ORDERED),
    "count": (combiners.CountCombineFn, ALL),
    "mean": (combiners.MeanCombineFn, EXACT | {"fraction"}),
    "all": (lambda: all, ALL),
    "any": (lambda: any, ALL),
    "largest": (lambda: combiners.TopCombineFn(1), EXACT | TEXTS | TIMES | {"fraction"}),
    "smallest": (lambda: combiners.Smallest(1), EXACT | TEXTS | {"fraction"}),
    "smallest two": (lambda: combiners.Smallest(2), EXACT | TEXTS),
    "longest": (lambda: combiners.TopCombineFn(1, key=repr), EXACT | TEXTS),
    "list": (combiners.ToListCombineFn, ALL),
    "latest": (lambda: combiners.Latest.PerKey(), ALL),
    "several": (several(sum, combiners.MeanCombineFn(), max), EXACT | {"fraction"}),
    "all kinds": (several(any, combiners.CountCombineFn(), min), WHOLE),
    "texts": (several(min, combiners.CountCombineFn(), any), TEXTS),
    "of parts": (lambda: combiners.TupleCombineFn(sum, combiners.MeanCombineFn()), PAIRS),
    "of a part": (lambda: combiners.TupleCombineFn(max, combiners.CountCombineFn()), PAIRS),
    "many parts": (several(*[sum] * 25), WHOLE),
    "Beam's greatest": (cy_combiners.MaxInt64Fn, frozenset({"small", "int", "large"})),
    "Beam's sum": (cy_combiners.SumInt64Fn, frozenset({"small"})),
    "Beam's greatest float": (cy_combiners.MaxFloatFn, frozenset({"float", "fraction"})),
    "Beam's all": (cy_combiners.AllCombineFn, frozenset({"bool"})),
    "own": (Longest, WHOLE | {"text"}),
    "arrays": (Arrays, frozenset({"small"})),
}
"""Maker of a CombineFn, and the kinds of values that it takes; or of a transform."""

GROUPS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("group", "lengths", "cogroup", "twice", "again"), ALL),
    **dict.fromkeys(("moved", "moved groups", "each of groups", "both"), ALL),
    "sums": EXACT,
    "lists": ALL,
    "of pairs": ALL - {"row", "objects"} - TIMES,
}
"""Other aggregations, and the kinds of values that they take."""

SINGLY = {"moved", "each of groups"}
"""Those whose results are the values, one by one."""


class Element(NamedTuple):
    """An element in one of its windows, or a group of values."""

    key: Any
    value: Any
    window: Any
    stamp: Timestamp


def plain(output: Any) -> str:
    """An output with its type, without the order of a list."""
    text = repr(sorted(output, key=plain) if isinstance(output, list) else output)
    # Beam's coders may make other classes of rows.
    return re.sub(r"BeamSchema_\w+\(", "Row(", text)


def is_odd(pair: tuple[Any, Any]) -> bool:
    return len(repr(pair[1])) % 2 == 1


# Steps.


def aggregated(name: str, pairs: Pairs) -> Pairs:
    """Results by key, as plain data with all that belongs to them."""
    found: Any
    match name:
        case "group":
            found = pairs | name >> beam.GroupByKey() | beam.MapTuple(in_a_list)
        case "lengths":
            groups = pairs | name >> beam.GroupByKey()
            found = groups | "length" >> beam.MapTuple(lambda key, some: (key, len(list(some))))
        case "sums":
            groups = pairs | name >> beam.GroupByKey()
            found = groups | "added" >> beam.MapTuple(lambda key, some: (key, sum(some)))
        case "each of groups":
            groups = pairs | name >> beam.GroupByKey()
            found = groups | "each" >> beam.FlatMapTuple(singly)
        case "moved":
            found = pairs | name >> beam.Reshuffle()
        case "moved groups":
            groups = pairs | f"{name} made" >> beam.GroupByKey()
            kept = groups | "kept" >> beam.Map(lambda group: group)
            found = kept | name >> beam.Reshuffle() | "in a list" >> beam.MapTuple(in_a_list)
        case "lists":
            groups = pairs | f"{name} made" >> beam.GroupByKey()
            swapped = groups | "one key" >> beam.Map(lambda group: (0, group[1]))
            found = swapped | name >> beam.GroupByKey() | "joined" >> beam.MapTuple(joined)
        case "both":
            odd = pairs | "odd ones" >> beam.Filter(is_odd)
            every = (pairs, odd, pairs) | "flat" >> beam.Flatten()
            found = every | name >> beam.CombinePerKey(combiners.ToListCombineFn())
        case "of pairs":
            found = pairs | name >> combiners.Count.PerElement()
        case "cogroup":
            sides = {"all": pairs, "odd": pairs | "side" >> beam.Filter(is_odd)}
            found = sides | name >> beam.CoGroupByKey() | "sides" >> beam.MapTuple(in_two_lists)
        case "twice" | "again":
            counts = pairs | f"{name} counts" >> beam.CombinePerKey(combiners.CountCombineFn())
            others = counts | f"{name} keys" >> beam.MapTuple(lambda key, n: (plain(key)[-1:], n))
            if name == "again":
                others = others | "second" >> beam.WindowInto(FixedWindows(1))
            found = others | name >> beam.CombinePerKey(sum)
        case "latest":
            found = pairs | name >> COMBINES[name][0]()
        case _:
            found = pairs | name >> beam.CombinePerKey(COMBINES[name][0]())
    return found | f"{name} seen" >> beam.ParDo(Seen(name)) | f"{name} end" >> at_the_end()


def result_of(name: str) -> Callable[[list[Any]], Any]:
    """Result of an aggregation of the values of a key and window."""
    made: dict[str, Callable[[list[Any]], Any]] = {
        **dict.fromkeys(("twice", "again", "sums"), sum),
        **dict.fromkeys(("lengths", "of pairs"), len),
        **dict.fromkeys(("group", "moved groups"), list),
        "cogroup": in_two,
        "both": lambda values: [*values, *values, *odd_ones(values)],
        "lists": lambda lists: [value for values in lists for value in values],
        "latest": lambda stamped: max(reversed(stamped), key=lambda one: one[1])[0],
    }
    if name in made:
        return made[name]
    fn = COMBINES[name][0]()
    if not isinstance(fn, beam.CombineFn):
        fn = beam.CombineFn.from_callable(fn)
    apply: Callable[[list[Any]], Any] = fn.apply
    return apply


def odd_ones(values: list[Any]) -> list[Any]:
    return [value for value in values if is_odd((None, value))]


def in_two(values: list[Any]) -> Any:
    return [plain(values), plain(odd_ones(values))]


def in_a_list(key: Any, values: Iterable[Any]) -> Any:
    return key, list(values)


def in_two_lists(key: Any, sides: dict[str, Iterable[Any]]) -> Any:
    return key, [plain(list(sides[name])) for name in ("all", "odd")]


def singly(key: Any, values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        yield key, value


def joined(key: Any, lists: Iterable[Iterable[Any]]) -> Any:
    return key, [value for values in lists for value in values]


class Seen(beam.DoFn):
    """Makes plain data of results."""

    def __init__(self, name: str) -> None:
        self._name = name

    def process(
        self,
        result: tuple[Any, Any],
        window: Any = beam.DoFn.WindowParam,
        stamp: Any = beam.DoFn.TimestampParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterator[Any]:
        key, output = result
        millis = coded_micros(stamp.micros) // 1000
        yield (self._name, repr(key), plain(output), repr(window), millis), repr(pane)

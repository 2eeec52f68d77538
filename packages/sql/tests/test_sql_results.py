"""Queries have their rows in all engines, in the table beside this module.

A heading of the table, ``# NAME: ENGINE…``, names the rows of ``PCOLLECTION``, and the engines of
the queries below it. A query stands above a line of dashes and its rows, in any order, with an
empty line around all of it. A line ``only ENGINE…`` above a query names its engines.
"""

import math
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms.sql import SqlTransform
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampedValue,
    WindowFn,
)
from apache_beam.utils.timestamp import Timestamp
from noting import values

pytest.importorskip("sqlglot")

from sql_engines import Rows, alike, by_steps, engines, shown

from sparkbeam_sql import calcite_nesting

TABLE = Path(__file__).with_suffix(".txt")


class Row(NamedTuple):
    id: int
    s: str | None
    f: float
    ts: Timestamp | None
    a: list[int]
    m: dict[str, int]
    yes: bool | None


class Click(NamedTuple):
    id: int
    user: str | None
    price: float
    at: Timestamp
    n: int | None


CLICKS = [
    Click(5, "ada", 1.5, Timestamp(5), 1),
    Click(15, "bob", 2.5, Timestamp(15), None),
    Click(17, None, 3.5, Timestamp(17), 4),
    Click(-25, "ada", 4.5, Timestamp(25), 7),
]


class Item(NamedTuple):
    k: int
    a: int | None


class Line(NamedTuple):
    sku: str
    n: int | None


class Order(NamedTuple):
    id: int
    lines: list[Line]


class Place(NamedTuple):
    city: str
    zip: int | None


class Person(NamedTuple):
    id: int
    home: Place
    other: Place | None


class Mixed(NamedTuple):
    id: int
    i: int | None
    f: float | None
    s: str | None
    t: Timestamp
    d: Decimal | None
    a: list[int]


class Odd(NamedTuple):
    """Values at the ends of their types."""

    id: int
    i: int | None
    i4: np.int32
    i2: np.int16
    f: float | None
    g: float
    f4: np.float32
    s: str | None
    t: Timestamp
    d: Decimal | None
    b: bool | None
    day: date | None


TIMES = (1709992815.25, -0.5, 0, 221845392000.999999, -12212553600, 951782400, 1735603200)
ODD: dict[str, list[Any]] = {
    "id": [1, 2, 3, 4, 5, 6, 7, 8],
    "i": [7, -7, None, 2**62, 0, -(2**63), 15, 2**63 - 1],
    "i4": [7, -7, 0, 2**31 - 1, 1, -(2**31), 15, -25],
    "i2": [7, -7, 0, 32767, 1, -32768, 15, -25],
    "f": [2.5, -2.5, None, 1e300, -0.0, math.inf, math.nan, 0.125],
    "g": [1.0, math.nan, -0.0, 2.5, 0.0, math.inf, math.nan, 0.1],
    "f4": [0.5, 0.25, 0.125, 2.0**100, -0.0, 3.5, 0.25, 0.125],
    "s": [" 12 ", "é𝄞b\nb", None, "", "xxabcxx", "a.c", "ABC", "2024"],
    "t": [*map(Timestamp, (*TIMES, 1704067200))],
    "d": [
        *map(Decimal, ("2.5", "-2.25")),
        None,
        Decimal("12345678901234567890.123456789012345678"),
        *map(Decimal, ("0", "-0.5", "0.001", "25")),
    ],
    "b": [True, False, None, True, False, True, None, None],
    "day": [
        *(date(2024, 2, 29), date(1969, 12, 31), None, date(9999, 12, 31)),
        *(date(1, 1, 1), date(1582, 10, 15), date(2000, 1, 1), date(1970, 1, 1)),
    ],
}
RELATIONS: dict[str, list[Any]] = {
    "rows": [
        Row(7, "abc", 1.5, Timestamp.from_rfc3339("2024-03-10T02:30:15Z"), [1, 2], {"k": 1}, True),
        Row(-7, None, -2.5, None, [], {}, False),
    ],
    "clicks": CLICKS,
    "items": [Item(1, 10), Item(1, None), Item(2, 20), Item(2, 25), Item(3, None)],
    "orders": [Order(1, [Line("a", 2), Line("b", None)]), Order(2, [])],
    "people": [
        Person(1, Place("é", None), None),
        Person(2, Place("b", 5), Place("c", 7)),
    ],
    "mixed": [
        Mixed(1, 7, 2.5, " abc_b% ", Timestamp(TIMES[0]), Decimal("2.5"), [1, 2]),
        Mixed(2, -7, -2.5, "é𝄞b\nb", Timestamp(-0.5), Decimal("-2.500000000000000001"), []),
        Mixed(3, None, None, None, Timestamp(0), None, [7]),
        Mixed(4, 2**62, 1e300, "", Timestamp(TIMES[3]), Decimal(10) ** 19, [-(2**63)]),
        Mixed(5, 0, -0.0, "xxabcxx", Timestamp(TIMES[4]), Decimal(0), []),
        Mixed(6, -(2**63), math.inf, "a.c", Timestamp(TIMES[5]), Decimal("-0.5"), [3, 3]),
        Mixed(7, 15, math.nan, "ABC|(z)", Timestamp(TIMES[6]), Decimal("0.000001"), []),
        Mixed(8, -25, 0.125, "a\\b", Timestamp(1704067200), Decimal(25), []),
    ],
    "odd": [Odd(*each) for each in zip(*ODD.values(), strict=True)],
}
WINDOWS: dict[str, WindowFn] = {
    "in windows of 10 s": FixedWindows(10),
    "in windows of 20 s every 10 s": SlidingWindows(20, 10),
    "in sessions of 3 s": Sessions(3),
    "without windows": GlobalWindows(),
}
"""Windows of the clicks; the rows of queries have the ends of their windows before them."""


class Case(NamedTuple):
    """A query in an engine."""

    table: str
    query: str
    expected: list[str]
    engine: str


def cases() -> Iterator[Any]:
    """Read the table."""
    table, of_table, line = "", [""], 1
    for paragraph in TABLE.read_text().split("\n\n"):
        number, line = line, line + paragraph.count("\n") + 2
        if paragraph.startswith("# "):
            table, _, named = paragraph[2:].partition(": ")
            of_table = named.split()
        query, dashes, rows = paragraph.strip("\n").partition("\n----")
        if not dashes:
            continue
        first, _, rest = query.partition("\n")
        only = first.split()[1:] if first.startswith("only ") else of_table
        query = rest if first.startswith("only ") else query
        for engine in only:
            case = Case(table, " ".join(query.split("\n")), rows.split("\n")[1:], engine)
            marks = [pytest.mark.xdist_group("spark")] if engine == "spark" else []
            yield pytest.param(case, id=f"{number} {engine}", marks=marks)


def ends(table: str, query: str) -> Rows:
    """Return the rows of a query over clicks in windows, with the ends of the windows."""

    def with_window(row: Any, window: Any = beam.DoFn.WindowParam) -> tuple[Any, ...]:
        return (int(window.end), *row)

    def found(pipeline: beam.Pipeline) -> Any:
        rows = pipeline | beam.Create(CLICKS).with_output_types(Click)
        windows = WINDOWS[table.removeprefix("clicks ")]
        if not isinstance(windows, GlobalWindows):
            stamp = beam.Map(lambda row: TimestampedValue(row, row.at)).with_output_types(Click)
            rows = rows | stamp | "In windows" >> beam.WindowInto(windows)
        return rows | SqlTransform(query) | beam.Map(with_window) | beam.WindowInto(GlobalWindows())

    return alike(values(found))


def rows_of(case: Case, spark: Any) -> list[str]:
    """Return the rows of a query in its engine, as the table has them."""
    if case.engine == "ends":
        found = ends(case.table, case.query)
    else:
        table = RELATIONS[case.table]
        with pytest.MonkeyPatch.context() as patch:
            if case.engine == "divided":  # Expressions, as long ones are.
                patch.setattr(calcite_nesting, "_DEEPEST", 1)
            run = engines(spark).get(case.engine, by_steps)
            found = run(case.query, type(table[0]), table)
    return sorted(" | ".join(map(shown, row)) for row in found)


@pytest.mark.part(5)
@pytest.mark.parametrize("case", [*cases()])
def test_a_query_has_its_rows(case: Case, request: pytest.FixtureRequest) -> None:
    spark = request.getfixturevalue("spark") if case.engine == "spark" else None
    assert rows_of(case, spark) == sorted(case.expected)

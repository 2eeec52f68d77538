"""Expressions and aggregates have their values in all engines: Spark, for each row, in windows.

The table beside this module has them in groups: an expression over :data:`ROW`, or an aggregate
over :data:`ITEMS`, and its value. ``spark:`` stands before those that only Spark has.
"""

import math
import re
from collections.abc import Callable, Iterable
from datetime import date
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from apache_beam.utils.timestamp import Timestamp

pytest.importorskip("sqlglot")

from random_queries import Row, by_sqlite, random_query, random_rows
from sql_engines import Rows, alike, by_steps, engines, shown

from sparkbeam_sql.calcite_dialect import QueryRefused
from sparkbeam_sql.calcite_functions import FUNCTIONS


class Mixed(NamedTuple):
    id: int
    i: int | None
    i4: np.int32
    i2: np.int16
    f: float
    g: np.float32
    nan: float
    s: str
    none: int | None
    t: Timestamp
    old: Timestamp
    day: date
    d: Decimal
    e: Decimal | None
    yes: bool
    a: list[int]
    empty: list[int]
    m: dict[str, int]
    x: bytes
    last: date
    leap: Timestamp


ROW = Mixed(
    id=7,
    i=-7,
    i4=np.int32(7),
    i2=np.int16(7),
    f=2.5,
    g=np.float32(0.5),
    nan=math.nan,
    s="abc",
    none=None,
    t=Timestamp(1710037815.25),
    old=Timestamp(-86400 * 365 - 0.5),
    day=date(2021, 2, 27),
    d=Decimal("2.5"),
    e=Decimal("-0.25"),
    yes=True,
    a=[1, 2],
    empty=[],
    m={"k": 7, "l": -2},
    x=b"\x0f\xff",
    last=date(2024, 1, 31),
    leap=Timestamp.from_rfc3339("2024-02-29T12:00:00Z"),
)


class Item(NamedTuple):
    n: int
    n4: np.int32
    x: float
    d: Decimal
    z: int | None
    k: str
    t: Timestamp
    a: list[int]
    m: dict[str, int]


ITEMS = [
    Item(
        n=n,
        n4=np.int32(n),
        x=float(n),
        d=Decimal(n),
        z=z,
        k="k",
        t=Timestamp(n * 100000),
        a=[1] * (at % 3),
        m={"k": n},
    )
    for at, (n, z) in enumerate([(1, 1), (4, 1), (7, 2), (13, None), (5, 2), (10, None), (17, 5)])
]

TEXT = Path(__file__).with_suffix(".txt").read_text()


def table(*, of_spark: bool) -> dict[str, dict[str, str]]:
    """Return the values of expressions by group, of those that only Spark has or of the others."""
    found: dict[str, dict[str, str]] = {}
    for group in TEXT.split("\n# ")[1:]:
        name, *lines = filter(None, group.splitlines())
        for line in lines:
            if line.startswith("spark: ") is of_spark:
                expression, _, value = line.removeprefix("spark: ").rpartition(" → ")
                found.setdefault(name, {})[expression] = value
    return found


TABLE, OF_SPARK_ALONE = table(of_spark=False), table(of_spark=True)

Engine = Callable[..., Rows]
ON_SPARK = pytest.param("spark", marks=pytest.mark.xdist_group("spark"))
ENGINES = (ON_SPARK, "rows", "numpy", "windows")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> tuple[str, Engine]:
    """Name and function of an engine."""
    spark = request.getfixturevalue("spark") if request.param == "spark" else None
    return request.param, engines(spark)[request.param]


def values(run: Engine, expressions: Iterable[str], group: str) -> dict[str, str]:
    """Return the texts of the values of expressions, which one query computes."""
    kind, rows = (Item, ITEMS) if group == "aggregates" else (Mixed, [ROW])
    (found,) = run(f"SELECT {', '.join(expressions)} FROM PCOLLECTION", kind, rows)
    return dict(zip(expressions, map(shown, found), strict=True))


@pytest.mark.parametrize("group", TABLE)
def test_expressions_have_the_values_of_beam_sql(engine: tuple[str, Engine], group: str) -> None:
    name, run = engine
    expected = TABLE[group] | (OF_SPARK_ALONE.get(group, {}) if name == "spark" else {})
    assert values(run, expected, group) == expected


@pytest.mark.parametrize("group", OF_SPARK_ALONE)
def test_what_only_spark_has_is_refused_elsewhere(group: str) -> None:
    for expression in OF_SPARK_ALONE[group]:
        with pytest.raises(QueryRefused):
            values(by_steps, [expression], group)


def test_aggregates_of_no_rows_are_null(engine: tuple[str, Engine]) -> None:
    name, run = engine
    query = "SELECT SUM(n), AVG(n), MIN(n), VAR_POP(n), COUNT(n), COUNT(*) FROM PCOLLECTION"
    found = run(f"{query} WHERE n > 100", Item, ITEMS)
    # A window without elements has no pane.
    assert found == ([(None, None, None, None, 0, 0)] if name == "spark" else [])
    assert run(f"{query} WHERE n > 100 GROUP BY k", Item, ITEMS) == []


@pytest.mark.parametrize("number", range(4))
def test_random_queries_have_the_rows_of_sqlite(number: int) -> None:
    random = Random(f"queries-{number}")
    rows = random_rows(random)
    items, rest = random_query(random, plain=True)
    query = f"SELECT {', '.join(items)} {rest}"
    found = [
        tuple(int(value) if isinstance(value, bool) else value for value in row)
        for row in by_steps(query, Row, rows, windows=number % 2 == 0)
    ]
    assert sorted(found, key=repr) == alike(by_sqlite(query, rows))


def test_all_functions_are_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "sql.md").read_text()
    begin = text.index("These functions are available in windows and in streaming")
    listed = {name.replace("\\|", "|") for name in re.findall(r"`([^`]+)`", text[begin:])}
    missing = [
        function.names
        for function in FUNCTIONS.values()
        if function.python is not None
        and function.names not in listed
        and not {*function.names.split()} <= listed
    ]
    assert missing == []

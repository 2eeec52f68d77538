"""Keys of groups, joins and subqueries may be of all types; equal values are one key."""

import math
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.sql import SqlTransform
from apache_beam.transforms.window import FixedWindows, GlobalWindows
from apache_beam.utils.timestamp import Timestamp
from in_process_batch import BatchRunner

pytest.importorskip("sqlglot")

from sql_engines import by_steps

from sparkbeam_sql.calcite_dialect import QueryRefused


class Part(NamedTuple):
    d: Decimal | None
    f: float
    t: Timestamp


class Keyed(NamedTuple):
    id: int
    i2: np.int16
    i4: np.int32
    g: np.float32
    f: float
    d: Decimal | None
    s: str
    x: bytes
    b: bool
    t: Timestamp
    day: date | None
    part: Part
    parts: list[Part]
    fs: list[float]
    ds: list[Decimal | None]
    days: list[date]
    shorts: list[np.int16]
    m: dict[str, Decimal]


def keyed(number: int, zero: float, one: str, entries: str) -> Keyed:
    part = Part(Decimal(one), zero, Timestamp(5))
    return Keyed(
        id=number,
        i2=np.int16(7),
        i4=np.int32(7),
        g=np.float32(zero),
        f=zero,
        d=Decimal(one),
        s="s",
        x=b"x",
        b=True,
        t=Timestamp(5),
        day=date(2024, 2, 29),
        part=part,
        parts=[part],
        fs=[zero, math.nan if number == 1 else math.inf - math.inf],
        ds=[Decimal(one), None],
        days=[date(2024, 2, 29)],
        shorts=[np.int16(7)],
        m={name: Decimal(one) for name in entries},
    )


ROWS = [keyed(1, 0.0, "1.5", "ab"), keyed(2, -0.0, "1.500", "ba")]
COLUMNS = [name for name in Keyed._fields if name != "id"]


@pytest.mark.part(5)
@pytest.mark.parametrize("numpy", [False, True])
@pytest.mark.parametrize("column", COLUMNS)
def test_equal_values_are_one_key(column: str, numpy: bool) -> None:
    def found(query: str) -> list[Any]:
        return by_steps(query, Keyed, ROWS, windows=True, numpy=numpy)

    table = "PCOLLECTION"
    assert found(f"SELECT COUNT(*) FROM {table} GROUP BY {column}") == [(2,)]
    assert found(f"SELECT COUNT(*) FROM (SELECT DISTINCT {column} FROM {table}) q") == [(1,)]
    pairs = [(1, 1), (1, 2), (2, 1), (2, 2)]
    on = f"p.{column} = q.{column}"
    assert found(f"SELECT p.id, q.id FROM {table} p JOIN {table} q ON {on}") == pairs
    exists = f"EXISTS (SELECT 1 FROM {table} q WHERE {on} AND q.id = 1)"
    assert found(f"SELECT p.id FROM {table} p WHERE {exists}") == [(1,), (2,)]
    absent = f"{column} NOT IN (SELECT {column} FROM {table} WHERE id = 1)"
    assert found(f"SELECT id FROM {table} WHERE {absent}") == []


def test_null_and_nan_equal_nothing_in_a_join_and_are_one_group_each() -> None:
    rows = [
        ROWS[0]._replace(id=at, d=None, day=None, f=nan, g=np.float32(nan))
        for at, nan in enumerate([math.nan, math.inf - math.inf])
    ]
    for column in ("d", "day", "f", "g"):
        of_pairs = (
            f"SELECT p.id FROM PCOLLECTION p JOIN PCOLLECTION q ON p.{column} = q.{column}",
            f"SELECT COUNT(*) FROM PCOLLECTION GROUP BY {column}",
        )
        found = [by_steps(query, Keyed, rows, windows=True) for query in of_pairs]
        assert found == [[], [(2,)]], column


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        ("p.d = q.d + 0.5", []),
        ("p.d - 0.5 = q.i4 - 6", [(1, 1), (1, 2), (2, 1), (2, 2)]),
        ("CAST(p.id AS DECIMAL(5, 2)) = q.id", [(1, 1), (2, 2)]),
        ("p.i2 = q.i4 AND p.d = q.d AND p.id = q.id", [(1, 1), (2, 2)]),
        ("p.part.d = q.d AND p.id = q.id", [(1, 1), (2, 2)]),
    ],
)
def test_keys_of_joins_may_be_computed(on: str, expected: list[Any]) -> None:
    query = f"SELECT p.id, q.id FROM PCOLLECTION p JOIN PCOLLECTION q ON {on}"
    assert by_steps(query, Keyed, ROWS, windows=True) == expected


@pytest.mark.part(5)
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("how", ["small side", "streams", "only row"])
def test_all_joins_have_keys_of_all_types(how: str, column: str) -> None:
    is_stream, is_single = how == "streams", how == "only row"
    with beam.Pipeline(runner=BatchRunner(), argv=["--streaming"] if is_stream else []) as pipeline:
        events = TestStream().add_elements(ROWS).advance_watermark_to_infinity()
        source = events if is_stream else beam.Create(ROWS)
        left = right = pipeline | source.with_output_types(Keyed)
        if not is_stream:
            left |= beam.WindowInto(FixedWindows(1))
        other = f"(SELECT ANY_VALUE({column}) AS {column} FROM r)" if is_single else "r"
        query = f"SELECT l.id FROM l JOIN {other} q ON l.{column} = q.{column}"
        found = {"l": left, "r": left if is_single else right} | SqlTransform(query)
        ids = found | beam.Map(lambda row: row.id) | "All" >> beam.WindowInto(GlobalWindows())
        assert_that(ids, equal_to([1, 2] if is_single else [1, 1, 2, 2]))


def test_nested_values_are_counted_and_ordered() -> None:
    expected = {
        "COUNT(DISTINCT parts), COUNT(DISTINCT fs), COUNT(DISTINCT m)": [(1, 1, 1)],
        "MAX(fs) = ANY_VALUE(fs), MIN(part) = MAX(part)": [(True, True)],
        "MAX(ARRAY[NULLIF(id, 2)]), MIN(ARRAY[NULLIF(id, 2)])": [([1], [None])],
        "MAX(ARRAY[f, f / id]), MIN(ds) = ANY_VALUE(ds)": [([(float, "0")] * 2, True)],
    }
    for items, rows in expected.items():
        found = by_steps(f"SELECT {items} FROM PCOLLECTION", Keyed, ROWS, windows=True)
        assert found == rows, items


def test_maps_have_no_order() -> None:
    with pytest.raises(QueryRefused, match="MAX of a map, which has no order"):
        by_steps("SELECT MAX(m) FROM PCOLLECTION", Keyed, ROWS)
    with pytest.raises(QueryRefused, match="the expression"):
        by_steps("SELECT m < m FROM PCOLLECTION", Keyed, ROWS)

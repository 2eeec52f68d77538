"""Values at the ends of their types have the same results by Spark as by steps of Beam."""

import math
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.sql import SqlTransform
from apache_beam.transforms.window import FixedWindows, GlobalWindows
from apache_beam.utils.timestamp import Timestamp
from in_process_batch import BatchRunner

from sparkbeam import PipelineFailed

pytest.importorskip("sqlglot")

from sql_engines import by_spark, by_steps


class Odd(NamedTuple):
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


NAN, ENDS = math.nan, 2**63
LONG = Decimal("12345678901234567890.123456789012345678")
TIMES = [
    1709992815.25,
    -0.5,
    0,
    221845392000.999999,
    -12212553600,
    951782400,
    1735603200,
    1704067200,
]
COLUMNS: dict[str, list[Any]] = {
    "id": [1, 2, 3, 4, 5, 6, 7, 8],
    "i": [7, -7, None, 2**62, 0, -ENDS, 15, ENDS - 1],
    "i4": [7, -7, 0, 2**31 - 1, 1, -(2**31), 15, -25],
    "i2": [7, -7, 0, 32767, 1, -32768, 15, -25],
    "f": [2.5, -2.5, None, 1e300, -0.0, math.inf, NAN, 0.125],
    "g": [1.0, NAN, -0.0, 2.5, 0.0, math.inf, NAN, 0.1],
    "f4": [0.5, 0.25, 0.125, 2.0**100, -0.0, 3.5, 0.25, 0.125],
    "s": [" 12 ", "é𝄞b\nb", None, "", "xxabcxx", "a.c", "ABC", "2024"],
    "t": [*map(Timestamp, TIMES)],
    "d": [*map(Decimal, ("2.5", "-2.25")), None, LONG, *map(Decimal, ("0", "-0.5", "0.001", "25"))],
    "b": [True, False, None, True, False, True, None, None],
    "day": [
        *(date(2024, 2, 29), date(1969, 12, 31), None, date(9999, 12, 31)),
        *(date(1, 1, 1), date(1582, 10, 15), date(2000, 1, 1), date(1970, 1, 1)),
    ],
}
ROWS = [Odd(*values) for values in zip(*COLUMNS.values(), strict=True)]

EXPRESSIONS = [
    "f = f, f <> f, g > 1, g >= g, g < f, g <= f, f = g, NOT (g > 1), NOT (g > f)",
    "f IN (1, 2.5), f BETWEEN 0 AND 3, g NOT BETWEEN 0 AND 3, f = -0.0, (i > 0) = (f > 0)",
    "f IS NOT DISTINCT FROM g, f IS DISTINCT FROM f, NULLIF(f, f), NULLIF(f, g), i = f, d > f",
    "NULLIF(id, 1) = 2, NOT (NULLIF(id, 1) = 2), id IN (5, NULL), id NOT IN (5, NULL)",
    "NULL = NULL, TRUE AND NULL, FALSE AND NULL, NOT NULL, id > 3 OR NULL, b IS UNKNOWN",
    "CASE WHEN id = 1 THEN 1 ELSE 2.5e0 END, CASE WHEN id = 1 THEN i4 ELSE f END",
    "CASE WHEN id = 1 THEN 2.5 ELSE f END, CASE id WHEN 1 THEN i4 WHEN 2 THEN i ELSE i2 END",
    "CASE WHEN id = 1 THEN 1 ELSE 2.5 END, CASE i WHEN 7 THEN 'a' WHEN NULL THEN 'b' END",
    "COALESCE(i, 0.5), COALESCE(i4, f), COALESCE(f, i), COALESCE(d, i), COALESCE(NULL, i)",
    "i2 + 1, f4 + f4, f4 * 3, f4 = 0.25, -d, ABS(d), d = 2.5, 7 / 2.0",
    "f4 + f, SQRT(f4), CAST(f AS FLOAT), CAST(i2 AS INTEGER), CAST(i AS DOUBLE)",
    "CAST(b AS VARCHAR), CAST(i AS VARCHAR(2)), CAST(s AS VARCHAR(2)), CAST(s AS CHAR(5))",
    "CAST(t AS VARCHAR), CAST(day AS VARCHAR), CAST(s AS CHAR), CAST(' 12 ' AS BIGINT)",
    "CAST(i AS DECIMAL), CAST(g AS DECIMAL), CAST(1.005 AS DECIMAL(10, 2)), CAST(i2 AS DECIMAL(5))",
    "CAST('-12.345' AS DECIMAL(10, 2)), CAST(f4 AS DECIMAL(38, 6)), CAST(NULL AS DECIMAL)",
    "CAST(t AS DATE), CAST(day AS TIMESTAMP), CAST(NULL AS DATE), CAST(day AS DATE)",
    "CAST('2024-2' AS DATE), CAST(' 2024-02-03 04:05 ' AS DATE), DATE '0001-01-01'",
    "CAST('2024-02-03 04:05:06.7' AS TIMESTAMP), CAST(CAST(day AS VARCHAR) AS TIMESTAMP)",
    "TIMESTAMP '2024-01-01 00:00:00.123456789', CAST(SUBSTRING(CAST(t AS VARCHAR), 1) AS DATE)",
    "day = DATE '2024-02-29', day > DATE '1970-01-01', day = CAST(t AS DATE), day = t, day < t",
    "t > '2020-01-01', day > '2020-01-01', day BETWEEN DATE '1970-01-01' AND DATE '2000-01-01'",
    "EXTRACT(YEAR FROM day), EXTRACT(DOW FROM day), EXTRACT(WEEK FROM day), MONTH(day)",
    "FLOOR(day TO MONTH), FLOOR(day TO QUARTER), FLOOR(day TO YEAR), CEIL(day TO DAY)",
    "ROUND(f, 1), ROUND(d), 9223372036854775808, i2 / -2, MOD(i4, i2 / 2 + 7)",
]
QUERIES = [
    "SELECT f + 0 AS f, COUNT(*) FROM PCOLLECTION GROUP BY f + 0",
    "SELECT DISTINCT g FROM PCOLLECTION",
    "SELECT MIN(f), MAX(f), MIN(g), MAX(g), COUNT(DISTINCT f), COUNT(DISTINCT g) FROM PCOLLECTION",
    "SELECT b, MIN(f), MAX(f), MIN(g), MAX(d), MIN(day), MAX(day) FROM PCOLLECTION GROUP BY b",
    "SELECT SUM(i4), SUM(i2), AVG(i4), SUM(f4), AVG(f4), AVG(f), SUM(d) FROM PCOLLECTION",
    "SELECT SUM(d), SUM(i2), AVG(f) FROM PCOLLECTION WHERE id = 3",
    "SELECT i4 FROM PCOLLECTION UNION SELECT i FROM PCOLLECTION",
    "SELECT i, day FROM PCOLLECTION UNION ALL SELECT f, NULL FROM PCOLLECTION",
    "SELECT id, d FROM PCOLLECTION UNION ALL SELECT i2, i4 FROM PCOLLECTION",
    "SELECT a.id, b.id FROM PCOLLECTION a JOIN PCOLLECTION b ON a.f = b.g",
    "SELECT a.id, b.id FROM PCOLLECTION a LEFT JOIN PCOLLECTION b ON a.g = b.f",
    "SELECT a.id, b.id AS b FROM PCOLLECTION a JOIN PCOLLECTION b USING (f4)",
    "SELECT day, COUNT(*) FROM PCOLLECTION GROUP BY day",
    "SELECT CAST(t AS DATE) AS d, SUM(i2) FROM PCOLLECTION GROUP BY CAST(t AS DATE)",
    "SELECT SUM(i4) FROM PCOLLECTION HAVING SUM(i4) < 3",
    "SELECT id, day FROM PCOLLECTION ORDER BY day DESC LIMIT 3",
    "SELECT v.x, id FROM PCOLLECTION JOIN (VALUES (1, 'a'), (2.5, NULL)) AS v(k, x) ON f = v.k",
    "SELECT * FROM (VALUES (1, NULL, DATE '2024-01-01'), (2.5, 'a', NULL)) AS v(a, b, c)",
    "SELECT v.k / 2 FROM (VALUES (1), (2.5e0), (1.5)) AS v(k)",
    "SELECT x / 3 FROM (SELECT d AS x FROM PCOLLECTION UNION ALL SELECT f FROM PCOLLECTION) u",
    "SELECT x / 3 FROM (SELECT i4 AS x FROM PCOLLECTION UNION ALL SELECT 1.5) u WHERE x = 1.5",
    "SELECT 1 AS one, CAST(2.555 AS DECIMAL(5, 2)) AS d UNION ALL SELECT id, d FROM PCOLLECTION",
]


def compared(spark: Any, query: str) -> None:
    expected = by_spark(spark, query, Odd, ROWS)
    assert by_steps(query, Odd, ROWS) == expected
    assert by_steps(query, Odd, ROWS, numpy=True) == expected


@pytest.mark.part(5)
@pytest.mark.parametrize("expressions", EXPRESSIONS)
def test_expressions_of_odd_values_are_those_of_spark(spark: Any, expressions: str) -> None:
    compared(spark, f"SELECT id, {expressions} FROM PCOLLECTION")


@pytest.mark.part(5)
@pytest.mark.parametrize("query", QUERIES)
def test_queries_of_odd_values_are_those_of_spark(spark: Any, query: str) -> None:
    compared(spark, query)


def in_windows(expression: str, row: Odd) -> Any:
    """Run an expression in a window."""
    pipeline = beam.Pipeline(runner=BatchRunner())
    rows = pipeline | beam.Create([row]).with_output_types(Odd)
    windowed = rows | beam.WindowInto(FixedWindows(1))
    return windowed | SqlTransform(f"SELECT {expression} AS x FROM PCOLLECTION")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("i4 + 1", "out of the range of 32 bits"),
        ("i2 + i2", "out of the range of 16 bits"),
        ("CAST(i AS INTEGER)", "out of the range of 32 bits"),
        ("CAST(f AS BIGINT)", "out of the range of 64 bits"),
        ("CAST(f * f AS BIGINT)", "NaN or infinite"),
        ("i * 4", "out of the encodable range"),
        ("TIMESTAMPADD(YEAR, 30000, t)", "not within the years 1 to 9999"),
        ("CAST(d AS DECIMAL(5, 2))", "out of the range of 5 digits"),
        ("99999999999999999999 * 99999999999999999999", "out of the range of 38 digits"),
        ("CAST('' AS INTEGER)", "not a whole number"),
        ("CAST('1_0' AS BIGINT)", "not a whole number"),
        ("CAST('١٢' AS BIGINT)", "not a whole number"),
        ("CAST('x' AS DOUBLE)", "not a number"),
        ("CAST('1_0' AS DECIMAL)", "not a number"),
        ("CAST(SUBSTRING(CAST(day AS VARCHAR) FROM 3) AS DATE)", "not a date"),
        ("CAST('2024-13-0' || s || '1' AS DATE)", "not a date"),
        ("CAST('2024-02-03 25:0' || s || '1' AS TIMESTAMP)", "not a timestamp"),
        ("f / 0", "division by zero"),
        ("d / 0.0", "division by zero"),
        ("MOD(d, d - d)", "division by zero"),
        ("FROM_HEX(CONCAT(s, 'x'))", "not consist of pairs of hexadecimal digits"),
        ("CAST(s AS BOOLEAN)", "not a BOOLEAN"),
        ("ELEMENT(ARRAY[i, 2])", "several elements"),
    ],
)
def test_what_is_out_of_range_ends_the_pipeline(expression: str, message: str) -> None:
    rows = in_windows(expression, ROWS[3])
    with pytest.raises(PipelineFailed, match=message):
        rows.pipeline.run().wait_until_finish()


@pytest.mark.parametrize(
    ("expression", "values"),
    [("i + 1", {"i": 2.5}), ("i4 + 1", {"i4": Decimal("2.5")}), ("f + 1", {"f": "2.5"})],
)
def test_a_value_of_another_type_is_not_converted(expression: str, values: dict[str, Any]) -> None:
    pipeline = beam.Pipeline(runner=BatchRunner())
    change = beam.Map(lambda row: row._replace(**values)).with_output_types(Odd)
    windowed = pipeline | beam.Create([ROWS[0]]) | change | beam.WindowInto(FixedWindows(1))
    _ = windowed | SqlTransform(f"SELECT {expression} AS x FROM PCOLLECTION")
    with pytest.raises(PipelineFailed, match="TypeError"):
        pipeline.run().wait_until_finish()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("d + d", Decimal("24691357802469135780.246913578024691356")),
        ("d * 2 - d", LONG),
        ("d / 3", Decimal("4115226300411522630.041152263004115226")),
        ("CAST(d AS VARCHAR)", str(LONG)),
    ],
)
def test_decimals_have_38_digits(expression: str, expected: Any) -> None:
    rows = in_windows(expression, ROWS[3])

    def check(given: list[Any]) -> None:
        assert [row.x for row in given] == [expected]

    assert_that(rows, check)
    rows.pipeline.run().wait_until_finish()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT d, COUNT(*) FROM PCOLLECTION GROUP BY d",
        "SELECT d, SUM(n) FROM (SELECT DISTINCT d, 2 AS n FROM PCOLLECTION UNION ALL "
        "SELECT d, 1 FROM PCOLLECTION WHERE n > 1) GROUP BY d",
    ],
)
def test_equal_decimals_are_one_group(query: str) -> None:
    texts = ["1", "1.00", "100", "1E+2", "0.0", "-0", "0.12345678901234567"]
    with beam.Pipeline(runner=BatchRunner()) as pipeline:
        rows = pipeline | beam.Create(
            [beam.Row(d=Decimal(text), n=at % 2 + 1) for at, text in enumerate(texts)]
        )
        found = rows | beam.WindowInto(FixedWindows(1)) | SqlTransform(query)
        texts = (
            found
            | beam.MapTuple(lambda d, n: (str(d), n))
            | "All" >> beam.WindowInto(GlobalWindows())
        )
        if "UNION" in query:
            expected = [("1", 3), ("100", 3), ("0", 3), ("0.12345678901234567", 2)]
        else:
            expected = [("1", 2), ("100", 2), ("0", 2), ("0.12345678901234567", 1)]
        assert_that(texts, equal_to(expected))

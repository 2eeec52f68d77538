"""Expressions have the same values in batch, by Spark, as in windows, by steps of Beam."""

import math
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that
from apache_beam.transforms.sql import SqlTransform
from apache_beam.transforms.window import FixedWindows, GlobalWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from in_process_batch import BatchRunner

from sparkbeam import SparkRunner, UnsupportedTransform
from sparkbeam.io import ReadFromSpark
from sparkbeam_sql import with_sql_functions

pytest.importorskip("sqlglot")

from sql_engines import by_spark, by_steps


class Mixed(NamedTuple):
    id: int
    i: int | None
    f: float | None
    s: str | None
    t: Timestamp
    d: Decimal | None
    a: list[int]


ROWS = [
    Mixed(1, 7, 2.5, " abc_b% ", Timestamp(1709992815.25), Decimal("2.5"), [1, 2]),
    Mixed(2, -7, -2.5, "é𝄞b\nb", Timestamp(-0.5), Decimal("-2.500000000000000001"), []),
    Mixed(3, None, None, None, Timestamp(0), None, [7]),
    Mixed(4, 2**62, 1e300, "", Timestamp(221845392000.999999), Decimal(10) ** 19, [-(2**63)]),
    Mixed(5, 0, -0.0, "xxabcxx", Timestamp(-12212553600), Decimal(0), []),
    Mixed(6, -(2**63), math.inf, "a.c", Timestamp(951782400), Decimal("-0.5"), [3, 3]),
    Mixed(7, 15, math.nan, "ABC|(z)", Timestamp(1735603200), Decimal("0.000001"), []),
    Mixed(8, -25, 0.125, "a\\b", Timestamp(1704067200), Decimal(25), []),
]

EXPRESSIONS = [
    "TRIM(s), TRIM(LEADING FROM s), TRIM(TRAILING 'x' FROM s), TRIM(BOTH 'x' FROM s)",
    "POSITION('b' IN s), POSITION('' IN s), POSITION(s IN 'xxabcxx'), POSITION('𝄞' IN s)",
    "REPLACE(s, 'b', '{}'), REPLACE(s, '', 'x'), REPLACE(s, 'a', s), REPLACE(s, s, 'é')",
    "CONCAT(s, '-', s), SUBSTRING(s FROM 2), SUBSTRING(s FROM 2 FOR 2), CHAR_LENGTH(s)",
    "s LIKE 'a%', s LIKE '%b', s LIKE '%b%', s LIKE 'a.c', s LIKE 'a_c', s LIKE '_%b_b'",
    "s NOT LIKE 'a%', s LIKE '%', s LIKE '', s LIKE '%!_b!%%' ESCAPE '!', s LIKE 'a\\b'",
    "s SIMILAR TO 'a.c|xx%', s SIMILAR TO '[a-z_% ]+', s SIMILAR TO '%(abc|b_)%'",
    "s SIMILAR TO '[[:UPPER:]]{3}_%', s SIMILAR TO '[^[:ALPHA:]]%', NOT s SIMILAR TO 'a%'",
    "ROUND(f), ROUND(f, 1), ROUND(f, 2), ROUND(i / 10, -1), ROUND(d), ROUND(d, 1), ROUND(i)",
    "FLOOR(f), CEIL(f), FLOOR(d), CEIL(d), FLOOR(i), CEIL(-f), FLOOR(f / 3)",
    "SQRT(f), SQRT(CAST(i AS DOUBLE)), POWER(f, 2), POWER(f, -1), POWER(2, f), EXP(f)",
    "POWER(i, 0.5), SQRT(ABS(f)), ABS(d), ABS(f), POWER(f, f)",
    "NULLIF(i, 7), NULLIF(s, ''), NULLIF(f, 2.5), COALESCE(NULLIF(i, 0), -1), NULLIF(id, NULL)",
    "i IS DISTINCT FROM 7, s IS NOT DISTINCT FROM NULL, i IS NOT DISTINCT FROM i",
    "EXTRACT(YEAR FROM t), EXTRACT(QUARTER FROM t), EXTRACT(MONTH FROM t), EXTRACT(WEEK FROM t)",
    "EXTRACT(DAY FROM t), EXTRACT(DOW FROM t), EXTRACT(DOY FROM t), EXTRACT(HOUR FROM t)",
    "EXTRACT(MINUTE FROM t), EXTRACT(SECOND FROM t), YEAR(t), HOUR(t), EXTRACT(YEAR FROM t) / 7",
    "FLOOR(t TO SECOND), FLOOR(t TO MINUTE), FLOOR(t TO HOUR), FLOOR(t TO DAY)",
    "FLOOR(t TO MONTH), FLOOR(t TO YEAR), FLOOR(t TO WEEK), FLOOR(t TO QUARTER)",
    "t - INTERVAL '90' SECOND, TIMESTAMPADD(HOUR, id - 3, t), TIMESTAMPADD(DAY, -1, t)",
    "TIMESTAMPDIFF(DAY, t, TIMESTAMP '2000-02-29 00:00:00'), TIMESTAMPDIFF(SECOND, t, t)",
]


def compared(spark: Any, query: str) -> None:
    assert by_steps(query, Mixed, ROWS) == by_spark(spark, query, Mixed, ROWS)


@pytest.mark.part(5)
@pytest.mark.parametrize("expressions", EXPRESSIONS)
def test_values_are_those_of_spark(spark: Any, expressions: str) -> None:
    compared(spark, f"SELECT id, {expressions} FROM PCOLLECTION")


@pytest.mark.part(3)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM PCOLLECTION WHERE s LIKE '%b%' OR s SIMILAR TO '(A|x)%'",
        "SELECT id, x, x + 1 AS y FROM PCOLLECTION, UNNEST(a) AS u(x) WHERE x > 1",
        "SELECT x, COUNT(*) AS n FROM PCOLLECTION p CROSS JOIN UNNEST(p.a) AS x GROUP BY x",
        "SELECT p.id, q.s FROM (SELECT id, x FROM PCOLLECTION, UNNEST(a) AS u(x)) p "
        "JOIN PCOLLECTION q ON q.id = p.x",
        "SELECT p.id, x, q.s FROM PCOLLECTION p, UNNEST(p.a) AS u(x) JOIN PCOLLECTION q "
        "ON q.id = x",
        "SELECT id, x FROM PCOLLECTION p LEFT JOIN UNNEST(p.a) AS u(x) ON TRUE",
        "SELECT id, x FROM PCOLLECTION p, LATERAL UNNEST(p.a) AS u(x)",
        "SELECT p.id, y, y + 1 AS z FROM PCOLLECTION p, LATERAL (SELECT p.i / 2 AS y) AS l "
        "WHERE y > -3",
        "SELECT p.id, y, q.id AS q FROM PCOLLECTION p, LATERAL (SELECT e + p.id FROM "
        "UNNEST(p.a) AS u(e) WHERE e > 1 OR p.id < 2) AS l(y) JOIN PCOLLECTION q ON q.id = y",
        "SELECT EXTRACT(YEAR FROM t) AS y, MAX(TRIM(s)) AS s FROM PCOLLECTION "
        "GROUP BY EXTRACT(YEAR FROM t) HAVING COUNT(*) > 0",
    ],
)
def test_rows_are_those_of_spark(spark: Any, query: str) -> None:
    compared(spark, query)


ORDERED_QUERIES = [
    "SELECT i > 0, COUNT(*) AS n FROM PCOLLECTION GROUP BY i > 0 ORDER BY COUNT(*) LIMIT 1",
    "SELECT MAX(id) AS m FROM PCOLLECTION GROUP BY i > 0 ORDER BY SUM(f) LIMIT 2",
    "SELECT DISTINCT i > 0 AS p FROM PCOLLECTION ORDER BY p DESC LIMIT 2",
    "SELECT id FROM PCOLLECTION UNION ALL SELECT i FROM PCOLLECTION ORDER BY id DESC LIMIT 5",
    "(SELECT id FROM PCOLLECTION ORDER BY id LIMIT 1) UNION ALL SELECT 10 FROM PCOLLECTION",
    "SELECT p.id, q.s FROM (SELECT id FROM PCOLLECTION ORDER BY f LIMIT 3) p "
    "JOIN PCOLLECTION q ON p.id = q.id",
    "SELECT COUNT(*) AS n FROM (SELECT s FROM PCOLLECTION LIMIT 3) x",
]
ORDERED = [
    *("i LIMIT 3", "i DESC LIMIT 3", "i NULLS FIRST LIMIT 3", "i DESC NULLS LAST LIMIT 2 OFFSET 6"),
    *("f, id LIMIT 4", "f DESC, id LIMIT 3", "s LIMIT 4", "s DESC LIMIT 3 OFFSET 1"),
    *("d LIMIT 3", "d DESC LIMIT 4", "t LIMIT 3", "t DESC FETCH FIRST 2 ROWS ONLY"),
    *("i IS NULL, ABS(f) DESC, id LIMIT 5", "2 DESC, 1 LIMIT 4", "n LIMIT 2", "n / 2, id LIMIT 9"),
    *(
        "id LIMIT 0",
        "id LIMIT 100 OFFSET 7",
        "s LIKE 'a%' DESC, -id OFFSET 2 ROWS FETCH NEXT ROW ONLY",
    ),
]


@pytest.mark.part(3)
@pytest.mark.parametrize(
    "query",
    [
        *(f"SELECT id, f, i AS n FROM PCOLLECTION ORDER BY {order}" for order in ORDERED),
        *ORDERED_QUERIES,
    ],
)
def test_the_first_rows_are_those_of_spark(spark: Any, query: str) -> None:
    compared(spark, query)


OVER_COLUMNS = [
    "CHAR_LENGTH(s), CONCAT(s, 'x'), LOWER(s), POSITION('b' IN s), REPLACE(s, 'a', 'b'), TRIM(s)",
    "SUBSTRING(s FROM 2), UPPER(s), s || 'x', s LIKE 'a%', s LIKE '%a', s LIKE '%a%', s LIKE 'a'",
    "ABS(i), CEIL(f), FLOOR(f), MOD(i, 3), SQRT(f), NULLIF(i, 3), COALESCE(i, id), i / 2",
    "TIMESTAMPADD(DAY, 1, t), TIMESTAMPDIFF(DAY, t, t), t + INTERVAL '1' HOUR",
    "i IS DISTINCT FROM id, CASE WHEN i > 1 THEN 2 END, CAST(i AS DOUBLE), plus(i)",
]
FOR_EACH_ROW = [
    *("REPLACE(s, s, 'x')", "s LIKE 'a_b'", "s SIMILAR TO 'a|b'", "EXP(f)", "POWER(f, 2)"),
    *("ROUND(f, 1)", "EXTRACT(HOUR FROM t)", "YEAR(t)", "FLOOR(t TO HOUR)", "CEIL(t TO DAY)"),
]
SCHEMA = "id bigint not null, i bigint, f double not null, s string, t timestamp not null"


def plus(n: int) -> int:
    return n + 1


def planned(spark: Any, folder: Path, expressions: str) -> str:
    """Return how the selection of a query over columns is run."""
    path = str(folder / "rows")
    spark.createDataFrame([], SCHEMA).write.parquet(path)
    runner = SparkRunner(spark)
    pipeline = beam.Pipeline(runner=runner)
    rows = pipeline | ReadFromSpark("parquet", {"path": path}, SCHEMA)
    query = SqlTransform(f"SELECT {expressions} FROM PCOLLECTION")
    _ = rows | beam.WindowInto(FixedWindows(1)) | with_sql_functions(query, plus=plus)
    (line,) = [line for line in runner.explain(pipeline).stages.splitlines() if "Select" in line]
    return line


@pytest.mark.parametrize("expressions", OVER_COLUMNS)
def test_expressions_are_computed_over_columns(
    spark: Any, tmp_path: Path, expressions: str
) -> None:
    assert planned(spark, tmp_path, expressions).endswith(": columns")


@pytest.mark.part(3)
@pytest.mark.parametrize("expression", FOR_EACH_ROW)
def test_expressions_are_computed_for_each_row(spark: Any, tmp_path: Path, expression: str) -> None:
    assert ": elements, because it calls" in planned(spark, tmp_path, expression)


def test_expressions_are_computed_in_windows() -> None:
    with beam.Pipeline(runner=BatchRunner()) as pipeline:
        rows = pipeline | beam.Create([ROWS[4]._replace(a=[3, 4]), ROWS[1]]).with_output_types(
            Mixed
        )
        windowed = (
            rows
            | beam.Map(lambda row: TimestampedValue(row, len(row.a))).with_output_types(
                rows.element_type
            )
            | beam.WindowInto(FixedWindows(1))
        )
        found = windowed | SqlTransform(
            "SELECT TRIM(BOTH 'x' FROM s) AS s, e FROM PCOLLECTION, "
            "UNNEST(a) AS t(e) WHERE s SIMILAR TO '%x%'"
        )
        told = found | beam.Map(lambda row, w=beam.DoFn.WindowParam: (int(w.end), *row))

        def check(given: list[Any]) -> None:
            assert sorted(given) == [(3, "abc", 3), (3, "abc", 4)]

        assert_that(told | "All" >> beam.WindowInto(GlobalWindows()), check)


@pytest.mark.parametrize(
    ("expression", "clause"),
    [
        ("s SIMILAR TO '[a'", "pattern '\\[a' of SIMILAR TO"),
        ("s SIMILAR TO 'a|*'", "of SIMILAR TO, which is not valid"),
        ("s LIKE 'a!b' ESCAPE '!'", "escape is not before a wildcard"),
        ("s LIKE s", "s"),
        ("MAP['a', 1]", "MAP"),
        ("FLOOR(t TO ISOYEAR)", "ISOYEAR"),
        ("POSITION(a IN s)", "ARRAY as a string: a"),
    ],
)
def test_what_cannot_be_computed_is_named(expression: str, clause: str) -> None:
    rows = beam.Pipeline(runner=BatchRunner()) | beam.Create(ROWS).with_output_types(Mixed)
    with pytest.raises(UnsupportedTransform, match=clause):
        _ = (
            rows
            | beam.WindowInto(FixedWindows(1))
            | SqlTransform(f"SELECT {expression} AS x FROM PCOLLECTION")
        )

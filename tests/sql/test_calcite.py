"""Beam SQL's dialect, where Spark's differs: each query is run by Spark over one table."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from sparkbeam.connectors.query_frames import queried, timed
from sparkbeam.errors import ConfigurationError

pytest.importorskip("sqlglot")

from sparkbeam.replacements.calcite import parse
from sparkbeam.replacements.calcite_dialect import QueryRefused

DDL = (
    "id bigint not null, s string, f double not null, ts timestamp_ntz, a array<bigint>, "
    "m map<string, bigint>, yes boolean, `a b` int, `class` int"
)
GAP = datetime(2024, 3, 10, 2, 30, 15)
ROWS = [
    (7, "abc", 1.5, GAP, [1, 2], {"k": 1}, True, 1, 2, 5),
    (-7, None, -2.5, None, [], {}, False, 3, 4, 6),
]


@pytest.fixture(scope="module")
def rows(spark: Any) -> Any:
    schema = timed(spark.createDataFrame([], DDL).schema)
    return spark.createDataFrame(ROWS, schema)


def run(rows: Any, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query without their timestamps."""
    types = {"PCOLLECTION": dict(rows.drop("sparkbeam_time").dtypes)}
    text = parse(query, types).spark_sql(types)
    tables = [rows] if "{t0}" in text else []
    return [tuple(row)[:-1] for row in queried(rows.sparkSession, text, tables).collect()]


EXPRESSIONS = [
    ("id / 2", 3),
    ("-id / 2", -3),
    ("id / 2 / 2", 1),
    ("7 / (3 / 2)", 7),
    ("id / 2.0", Decimal("3.5")),
    ("id / f", 7 / 1.5),
    ("MOD(-id, 2)", -1),
    ("CAST(f AS INTEGER)", 1),
    ("CAST(yes AS VARCHAR)", "TRUE"),
    ("CAST(s AS VARCHAR(2))", "ab"),
    ("CAST(s AS CHAR(5))", "abc  "),
    ("CAST(id AS DECIMAL)", Decimal(7)),
    ("CAST(ts AS VARCHAR)", "2024-03-10 02:30:15"),
    ("s || '-' || CAST(id AS VARCHAR)", "abc-7"),
    ("s || CAST(NULL AS VARCHAR)", None),
    ("CHAR_LENGTH(s)", 3),
    ("CHARACTER_LENGTH(s)", 3),
    ("POSITION('b' IN s)", 2),
    ("SUBSTRING(s FROM 2 FOR 1)", "b"),
    ("TRIM(BOTH 'a' FROM s)", "bc"),
    (r"'a\b' LIKE 'a\b'", True),
    (r"'it''s \n {x}'", r"it's \n {x}"),
    ("CEIL(f)", 2.0),
    ("FLOOR(-f)", -2.0),
    ("a[1]", 1),
    ("a[3]", None),
    ("m['k']", 1),
    ("m['z']", None),
    ("ARRAY[10, 20][2]", 20),
    ("MAP['x', 5]['x']", 5),
    ("CARDINALITY(a)", 2),
    ("TIMESTAMP '2024-03-10 02:30:00' < ts", True),
    ("FLOOR(ts TO HOUR)", datetime(2024, 3, 10, 2)),
    ("FLOOR(ts TO MONTH)", datetime(2024, 3, 1)),
    ("CEIL(ts TO DAY)", datetime(2024, 3, 11)),
    ("CEIL(FLOOR(ts TO DAY) TO DAY)", datetime(2024, 3, 10)),
    ("ts + INTERVAL '1' HOUR", datetime(2024, 3, 10, 3, 30, 15)),
    ("ts + INTERVAL '1:30' HOUR TO MINUTE", datetime(2024, 3, 10, 4, 0, 15)),
    ("TIMESTAMPADD(MINUTE, 3, ts)", datetime(2024, 3, 10, 2, 33, 15)),
    ("TIMESTAMPDIFF(DAY, TIMESTAMP '2024-03-01 00:00:00', ts)", 9),
    ("EXTRACT(HOUR FROM ts)", 2),
    ("EXTRACT(SECOND FROM ts + INTERVAL '1' SECOND)", 16),
    ("CEIL(f * 1e300)", 1.5e300),
    ("s SIMILAR TO 'a(b|c)+'", True),
    ("s || '\\n' SIMILAR TO 'a%c'", False),
    ("CAST(ts AS DATE)", date(2024, 3, 10)),
    ('`a b` + "a b"', 2),
    ("`class`", 2),
    ("p.id", 7),
    ("id IS DISTINCT FROM NULL", True),
    ("CASE WHEN s = 'abc' THEN 1 ELSE 2 END", 1),
    ("COALESCE(NULLIF(id, 7), 3)", 3),
]


@pytest.fixture(scope="module")
def values(rows: Any) -> dict[str, Any]:
    """The values of all expressions, by one query."""
    expressions = [expression for expression, _ in EXPRESSIONS]
    (found,) = run(rows, f"SELECT {', '.join(expressions)} FROM PCOLLECTION p WHERE id = 7")
    return dict(zip(expressions, found, strict=True))


@pytest.mark.parametrize(("expression", "expected"), EXPRESSIONS)
def test_expressions_have_the_values_of_beam_sql(
    values: dict[str, Any], expression: str, expected: Any
) -> None:
    assert values[expression] == expected


@pytest.mark.part(3)
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT s FROM PCOLLECTION ORDER BY s LIMIT 1", [("abc",)]),
        ("SELECT s FROM PCOLLECTION ORDER BY s DESC LIMIT 1", [(None,)]),
        ("SELECT id FROM PCOLLECTION ORDER BY id FETCH FIRST 1 ROWS ONLY", [(-7,)]),
        ("SELECT AVG(id + 1), SUM(id), COUNT(s), AVG(f) FROM PCOLLECTION", [(1, 0, 1, -0.5)]),
        ("SELECT AVG(DISTINCT id) FROM PCOLLECTION WHERE id > 0", [(7,)]),
        ("SELECT DISTINCT AVG(id) OVER (PARTITION BY 1) FROM PCOLLECTION", [(0,)]),
        ("SELECT LISTAGG(s, ',') FROM PCOLLECTION", [("abc",)]),
        ("SELECT id FROM PCOLLECTION EXCEPT ALL SELECT 7 FROM PCOLLECTION", [(-7,)]),
        ("SELECT id FROM PCOLLECTION INTERSECT ALL SELECT 7 FROM PCOLLECTION", [(7,)]),
        ("SELECT x FROM PCOLLECTION, UNNEST(a) AS t(x)", [(1,), (2,)]),
        ("SELECT x FROM PCOLLECTION p CROSS JOIN UNNEST(p.a) AS x", [(1,), (2,)]),
        ("SELECT x FROM PCOLLECTION p, LATERAL UNNEST(p.a) AS t(x)", [(1,), (2,)]),
        (
            "SELECT x, q.s FROM PCOLLECTION p, UNNEST(p.a) AS t(x) JOIN PCOLLECTION q "
            "ON q.id = x + 6",
            [(1, "abc")],
        ),
        (
            "SELECT p.id, x, i FROM PCOLLECTION p, UNNEST(p.a) WITH ORDINALITY AS t(x, i)",
            [(7, 1, 1), (7, 2, 2)],
        ),
        (
            "SELECT p.id, x FROM PCOLLECTION p LEFT JOIN UNNEST(p.a) AS t(x) ON TRUE",
            [(7, 1), (7, 2), (-7, None)],
        ),
        ("SELECT y FROM PCOLLECTION p, LATERAL (SELECT p.id / 2 AS y) AS l", [(3,), (-3,)]),
        (
            "SELECT n FROM PCOLLECTION p, LATERAL (SELECT COUNT(*) FROM PCOLLECTION q "
            "WHERE q.id < p.id) AS l(n)",
            [(1,), (0,)],
        ),
        ("VALUES (1, 'a'), (2, 'b')", [(1, "a"), (2, "b")]),
        ("SELECT EXPR$0 FROM (SELECT COUNT(*) FROM PCOLLECTION)", [(2,)]),
        ("WITH w AS (SELECT id i FROM PCOLLECTION) SELECT i FROM w WHERE i > 0", [(7,)]),
        ("SELECT p.id FROM PCOLLECTION p JOIN PCOLLECTION q ON p.id = -q.id AND p.id > 0", [(7,)]),
        ("SELECT id FROM PCOLLECTION p WHERE id IN (SELECT MAX(id) FROM PCOLLECTION)", [(7,)]),
        ("SELECT COUNT(*) FILTER (WHERE id > 0) FROM PCOLLECTION", [(1,)]),
    ],
)
def test_clauses_have_the_rows_of_beam_sql(
    rows: Any, query: str, expected: list[tuple[Any, ...]]
) -> None:
    assert sorted(run(rows, query), key=repr) == sorted(expected, key=repr)


def test_times_do_not_depend_on_the_time_zone_of_the_session(spark: Any, rows: Any) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        ((floor, text, now, utc),) = run(
            rows,
            "SELECT FLOOR(ts TO HOUR), CAST(ts AS VARCHAR), CURRENT_TIMESTAMP, "
            "CAST(CAST(CAST(ts AS DATE) AS TIMESTAMP) AS VARCHAR) FROM PCOLLECTION WHERE id = 7",
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert floor == datetime(2024, 3, 10, 2)
    assert (text, utc) == ("2024-03-10 02:30:15", "2024-03-10 00:00:00")
    assert abs((datetime.now(UTC).replace(tzinfo=None) - now).total_seconds()) < 3600


@pytest.mark.part(3)
@pytest.mark.parametrize(
    ("query", "times"),
    [
        ("SELECT id FROM PCOLLECTION", {5, 6}),
        ("SELECT id FROM (SELECT id FROM PCOLLECTION WHERE id > 0)", {5}),
        ("WITH w AS (SELECT id FROM PCOLLECTION) SELECT id FROM w", {5, 6}),
        ("SELECT id FROM PCOLLECTION UNION ALL SELECT id FROM PCOLLECTION", {5, 6}),
        ("SELECT MAX(id) FROM PCOLLECTION", {9223371950454775000}),
        ("SELECT LISTAGG(s, ',') FROM PCOLLECTION", {9223371950454775000}),
        ("SELECT DISTINCT id FROM PCOLLECTION", {9223371950454775000}),
        ("SELECT id FROM PCOLLECTION UNION SELECT id FROM PCOLLECTION", {9223371950454775000}),
    ],
)
def test_rows_of_one_table_keep_their_timestamps(rows: Any, query: str, times: set[int]) -> None:
    types = {"PCOLLECTION": dict(rows.drop("sparkbeam_time").dtypes)}
    frame = queried(rows.sparkSession, parse(query, types).spark_sql(types), [rows])
    assert {row[-1] for row in frame.collect()} == times


TABLES = {"PCOLLECTION": {"id": "bigint", "s": "string"}, "odd {name}": {"we`ird": "int"}}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT id, id, id AS id0 FROM PCOLLECTION", ("id", "id0", "id00")),
        ("SELECT id + 1, COUNT(*) FROM PCOLLECTION GROUP BY id", ("EXPR_0", "EXPR_1")),
        (
            "SELECT id AS `a.b`, id AS `class`, id AS `_x` FROM PCOLLECTION",
            ("a_b", "class_", "f_x"),
        ),
        ("SELECT * FROM `odd {name}`", ("we_ird",)),
        ("SELECT id Id, id ID FROM PCOLLECTION", ("Id", "ID")),
    ],
)
def test_columns_have_names_that_rows_can_have(query: str, names: tuple[str, ...]) -> None:
    assert parse(query, TABLES).columns == names


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT ID FROM PCOLLECTION", "Column 'ID' could not be resolved"),
        ("SELECT id FROM pcollection", "There is no table 'pcollection'"),
        ("SELECT id FROM db.PCOLLECTION", "There is no table 'db.PCOLLECTION'"),
        ("SELECT id FROM PCOLLECTION; SELECT 1", "2 statements"),
        ("SELECT id FRM PCOLLECTION WHERE (", "not valid SQL"),
        ("", "0 statements"),
        (f"SELECT {'(' * 3000}1", "not valid SQL|nested too deeply"),
    ],
)
def test_a_wrong_query_is_an_error(query: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse(query, TABLES)


@pytest.mark.parametrize(
    ("query", "clause"),
    [
        ("DROP TABLE PCOLLECTION", "the statement DROP"),
        ("INSERT INTO PCOLLECTION SELECT 1, 'a'", "the statement INSERT"),
        ("SELECT id FROM PCOLLECTION TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
        ("SELECT * FROM range(10)", "the table function"),
        ("SELECT 1 FROM PCOLLECTION, LATERAL TABLE(f(id)) AS t(x)", "the table function"),
        ("SELECT id FROM PCOLLECTION FETCH FIRST 1 ROWS WITH TIES", "WITH TIES"),
    ],
)
def test_a_clause_that_is_not_translated_is_named(query: str, clause: str) -> None:
    with pytest.raises(QueryRefused, match=clause):
        parse(query, TABLES)

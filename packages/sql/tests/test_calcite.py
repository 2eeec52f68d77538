"""Beam SQL's dialect, where Spark's differs: each query is run by Spark over one table."""

import functools
import operator
from datetime import UTC, date, datetime
from typing import Any

import pytest

from sparkbeam.connectors.query_frames import queried, timed
from sparkbeam.errors import ConfigurationError

pytest.importorskip("sqlglot")

from sqlglot import exp

from sparkbeam_sql.calcite import parse
from sparkbeam_sql.calcite_checks import check_nodes
from sparkbeam_sql.calcite_dialect import QueryRefused
from sparkbeam_sql.calcite_functions import FUNCTIONS
from sparkbeam_sql.calcite_nodes import NODES
from sparkbeam_sql.user_functions import builtins

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
    found = queried(rows.sparkSession, text, tables, builtins(text, "Query"))
    return [tuple(row)[:-1] for row in found.collect()]


@pytest.mark.part(5)
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            'SELECT `a b` + "a b", `class`, p.id FROM PCOLLECTION p',
            [(2, 2, 7), (6, 4, -7)],
        ),
        ("SELECT s FROM PCOLLECTION ORDER BY s LIMIT 1", [("abc",)]),
        ("SELECT s FROM PCOLLECTION ORDER BY s DESC LIMIT 1", [(None,)]),
        ("SELECT id FROM PCOLLECTION ORDER BY id FETCH FIRST 1 ROWS ONLY", [(-7,)]),
        ("SELECT AVG(id + 1), SUM(id), COUNT(s), AVG(f) FROM PCOLLECTION", [(1, 0, 1, -0.5)]),
        ("SELECT AVG(DISTINCT id) FROM PCOLLECTION WHERE id > 0", [(7,)]),
        ("SELECT DISTINCT AVG(id) OVER (PARTITION BY 1) FROM PCOLLECTION", [(0,)]),
        (
            "SELECT DISTINCT AVG(9007199254740993) OVER (PARTITION BY id) FROM PCOLLECTION",
            [(9007199254740993,)],
        ),
        (
            "SELECT l.x / 2, y FROM PCOLLECTION p, LATERAL (SELECT p.id AS x) l, "
            "LATERAL (SELECT l.x / 3) m(y)",
            [(3, 2), (-3, -2)],
        ),
        ("SELECT AVG(id) FILTER (WHERE id > 0) OVER () FROM PCOLLECTION", [(7,), (7,)]),
        ("SELECT id FROM PCOLLECTION WHERE LOCALTIMESTAMP > ts GROUP BY (id)", [(7,)]),
        ("SELECT LISTAGG(s, ',') FROM PCOLLECTION", [("abc",)]),
        ("SELECT BIT_AND(id), EVERY(id > 0), SOME(id > 0) FROM PCOLLECTION", [(1, False, True)]),
        ("SELECT id FROM (TABLE PCOLLECTION) WHERE id > 0", [(7,)]),
        (
            "SELECT p.id FROM (TABLE PCOLLECTION) AS p JOIN (PCOLLECTION) q ON p.id = -q.id",
            [(7,), (-7,)],
        ),
        ("SELECT id FROM PCOLLECTION WHERE NULL", []),
        ("SELECT p.id FROM PCOLLECTION p JOIN PCOLLECTION q ON NULL", []),
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
        (
            "SELECT s.x FROM (SELECT id + 100 AS x FROM PCOLLECTION) s WHERE EXISTS "
            "(SELECT 1 FROM PCOLLECTION b WHERE b.id = s.x)",
            [],
        ),
        (
            "SELECT id.x, n FROM (SELECT id + 1 AS x FROM PCOLLECTION) id, LATERAL "
            "(SELECT COUNT(*) AS n FROM PCOLLECTION q WHERE q.id < id.x) l",
            [(8, 2), (-6, 1)],
        ),
        (
            "SELECT p.id FROM (WITH PCOLLECTION AS (SELECT 7 AS id) SELECT id FROM PCOLLECTION) q "
            "JOIN PCOLLECTION p ON q.id = p.id",
            [(7,)],
        ),
        (
            "WITH PCOLLECTION AS (SELECT id + 1 AS id FROM PCOLLECTION) SELECT id FROM PCOLLECTION",
            [(8,), (-6,)],
        ),
        (
            "WITH x AS (SELECT 1 AS i) SELECT q.i, x.i FROM "
            "(WITH x AS (SELECT i + 1 AS i FROM x) SELECT i FROM x) q, x",
            [(2, 1)],
        ),
        ("SELECT COUNT(*) FILTER (WHERE id > 0) FROM PCOLLECTION", [(1,)]),
        ("SELECT id FROM PCOLLECTION WHERE s NOT IN (SELECT s FROM PCOLLECTION)", []),
        ("SELECT id FROM PCOLLECTION WHERE s IN ('abc', NULL)", [(7,)]),
        (
            "SELECT COUNT(*) FROM PCOLLECTION WHERE "
            "(id IN (SELECT CAST(NULL AS BIGINT) FROM PCOLLECTION)) IS NULL",
            [(2,)],
        ),
        (
            "SELECT id FROM PCOLLECTION WHERE NOT (id > 7 OR id IN (SELECT NULLIF(id, 7) FROM "
            "PCOLLECTION))",
            [],
        ),
        (
            "SELECT id FROM PCOLLECTION WHERE f + CAST('NaN' AS DOUBLE) IN (SELECT f + "
            "CAST('NaN' AS DOUBLE) FROM PCOLLECTION) OR id < 0",
            [(-7,)],
        ),
        (
            "SELECT p.id FROM PCOLLECTION p WHERE EXISTS "
            "(SELECT 1 FROM PCOLLECTION q WHERE q.id < p.id)",
            [(7,)],
        ),
        (
            "SELECT p.id FROM PCOLLECTION p WHERE NOT EXISTS "
            "(SELECT 1 FROM PCOLLECTION q WHERE q.s = p.s)",
            [(-7,)],
        ),
        (
            "SELECT (SELECT MAX(q.id) FROM PCOLLECTION q WHERE q.id < p.id) FROM PCOLLECTION p",
            [(-7,), (None,)],
        ),
        (
            "WITH w AS (SELECT id FROM PCOLLECTION) SELECT a.id FROM w a JOIN w b ON a.id = -b.id",
            [(7,), (-7,)],
        ),
        (
            "SELECT yes, GROUPING(yes), SUM(id) FROM PCOLLECTION GROUP BY ROLLUP(yes)",
            [(True, 0, 7), (False, 0, -7), (None, 1, 0)],
        ),
        (
            "SELECT yes, s, COUNT(*) FROM PCOLLECTION GROUP BY GROUPING SETS ((yes), (s), ())",
            [(True, None, 1), (False, None, 1), (None, "abc", 1), (None, None, 1), (None, None, 2)],
        ),
        ("SELECT COUNT(DISTINCT s), SUM(DISTINCT id * id) FROM PCOLLECTION", [(1, 49)]),
        ("SELECT SUM(id) FROM PCOLLECTION HAVING COUNT(*) > 5", []),
        ("SELECT SUM(id), COUNT(*), AVG(id) FROM PCOLLECTION WHERE id > 100", [(None, 0, None)]),
        ("SELECT yes FROM PCOLLECTION WHERE id > 100 GROUP BY yes", []),
        ("SELECT ABS(id) AS id, COUNT(*) FROM PCOLLECTION GROUP BY id", [(7, 1), (7, 1)]),
        ("SELECT ABS(id) AS id FROM PCOLLECTION GROUP BY id HAVING id < 0", [(7,)]),
        ("SELECT ABS(id) AS k, COUNT(*) FROM PCOLLECTION GROUP BY ABS(id) ORDER BY 1", [(7, 2)]),
        ("SELECT -id AS id FROM PCOLLECTION WHERE id > 0", [(-7,)]),
        ("SELECT a FROM (SELECT id, s FROM PCOLLECTION ORDER BY s LIMIT 1) AS x(a, b)", [(7,)]),
        ("WITH w(a) AS (SELECT id FROM PCOLLECTION ORDER BY id LIMIT 1) SELECT a FROM w", [(-7,)]),
        ("SELECT -id AS id, id AS x FROM PCOLLECTION ORDER BY id LIMIT 1", [(-7, 7)]),
        ("SELECT id AS x FROM PCOLLECTION ORDER BY -id LIMIT 1", [(7,)]),
        ("SELECT s, RANK() OVER (ORDER BY s) FROM PCOLLECTION", [("abc", 1), (None, 2)]),
        ("SELECT LAG(id) OVER (ORDER BY id DESC) FROM PCOLLECTION", [(7,), (None,)]),
        (
            "SELECT SUM(id) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) "
            "FROM PCOLLECTION",
            [(-7,), (0,)],
        ),
        (
            "SELECT id FROM PCOLLECTION UNION ALL SELECT id FROM PCOLLECTION INTERSECT "
            "SELECT 7 FROM PCOLLECTION",
            [(7,), (-7,), (7,)],
        ),
        ("SELECT id FROM PCOLLECTION EXCEPT SELECT ABS(id) FROM PCOLLECTION", [(-7,)]),
        ("SELECT s FROM PCOLLECTION INTERSECT SELECT CAST(NULL AS VARCHAR)", [(None,)]),
        ("SELECT id FROM PCOLLECTION NATURAL JOIN (SELECT 7 AS id) q", [(7,)]),
        ("SELECT COUNT(s, id), COUNT(DISTINCT s, id), COUNT(id) FROM PCOLLECTION", [(1, 1, 2)]),
        ("SELECT id FROM PCOLLECTION WHERE id BETWEEN SYMMETRIC 9 AND 5", [(7,)]),
        ("SELECT id FROM PCOLLECTION WHERE id NOT BETWEEN SYMMETRIC 9 AND 5", [(-7,)]),
        ("SELECT x, y FROM (VALUES ROW(1, 'a'), ROW(2, 'b')) AS v(x, y)", [(1, "a"), (2, "b")]),
        ("SELECT id, yes FROM PCOLLECTION GROUP BY (id, yes)", [(7, True), (-7, False)]),
        ("SELECT FLOOR(7), COUNT(*) FROM PCOLLECTION GROUP BY FLOOR(7)", [(7, 2)]),
        ("SELECT FLOOR(-7), COUNT(*) FROM PCOLLECTION GROUP BY FLOOR(-7)", [(-7, 2)]),
        ("SELECT COUNT(*) FROM PCOLLECTION GROUP BY 1.5, 'a'", [(2,)]),
        ("SELECT COUNT(*) FROM (SELECT id FROM PCOLLECTION LIMIT ALL) q", [(2,)]),
        (
            f"SELECT id FROM PCOLLECTION WHERE {' OR '.join(f'id = {at}' for at in range(213))}",
            [(7,)],
        ),
        (f"SELECT {' + '.join(['id'] * 400)} FROM PCOLLECTION", [(2800,), (-2800,)]),
        (f"SELECT {' + '.join(['0.1e0'] * 300)}", [(functools.reduce(operator.add, [0.1] * 300),)]),
        (
            f"SELECT CASE {' '.join(f'WHEN id = {at} THEN {at}' for at in range(200))} ELSE 0 END "
            "FROM PCOLLECTION",
            [(7,), (0,)],
        ),
        (f"SELECT id FROM PCOLLECTION WHERE id IN ({', '.join(map(str, range(1000)))})", [(7,)]),
        (f"SELECT COUNT(*) FROM ({' UNION ALL '.join(['SELECT 1 AS x'] * 100)}) q", [(100,)]),
        ("SELECT id, x FROM PCOLLECTION JOIN (SELECT 7 AS id, 1 AS x) q USING (id)", [(7, 1)]),
        (
            "SELECT p.id, q.k FROM PCOLLECTION p FULL JOIN (SELECT 7 AS k UNION ALL SELECT NULL) q "
            "ON p.id = q.k",
            [(7, 7), (-7, None), (None, None)],
        ),
        ("SELECT COUNT(*) FROM PCOLLECTION, (VALUES (1), (NULL)) AS v(x) WHERE x IS NULL", [(2,)]),
        (
            "SELECT `select`, `Ü`, `ü` FROM (SELECT id AS `select`, 'ü' AS `Ü`, '' AS `ü` "
            "FROM PCOLLECTION WHERE id > 0) AS `from`",
            [(7, "ü", "")],
        ),
    ],
)
def test_clauses_have_the_rows_of_beam_sql(
    rows: Any, query: str, expected: list[tuple[Any, ...]]
) -> None:
    assert sorted(run(rows, query), key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize(
    ("expression", "clause"),
    [
        ("TIME '10:00:00'", "the type TIME"),
        ("id / my_function(s)", r"MY_FUNCTION\(s\), whose type is unknown"),
        ("AVG(my_function(s))", r"MY_FUNCTION\(s\), whose type is unknown"),
        ("STDDEV(1 + my_function(s))", "whose type is unknown"),
        ("COVAR_POP(my_function(s), 1)", "whose type is unknown"),
        ("CAST(my_function(s) AS VARCHAR)", "whose type is unknown"),
        ("f > my_function(s)", "whose type is unknown"),
        ("1.5 = COALESCE(my_function(s), 2)", "whose type is unknown"),
        ("FLOOR(ts TO ISOYEAR)", "the unit ISOYEAR"),
        ("FLOOR(CAST(ts AS DATE) TO HOUR)", "the unit HOUR"),
        ("EXTRACT(FORTNIGHT FROM ts)", "the unit FORTNIGHT"),
        ("TIMESTAMPADD(FORTNIGHT, 1, ts)", "the unit FORTNIGHT"),
        ("(id, s) IN ((1, 'a', 2))", "rows of different widths"),
        ("s SIMILAR TO s", "SIMILAR TO with a pattern that is not a string literal"),
    ],
)
def test_an_expression_that_is_not_translated_is_named(
    rows: Any, expression: str, clause: str
) -> None:
    with pytest.raises(QueryRefused, match=clause):
        run(rows, f"SELECT {expression} FROM PCOLLECTION")


@pytest.mark.parametrize("expression", ["id / 0", "f / 0", "id * 9223372036854775807"])
def test_divisions_by_zero_and_overflows_are_errors(rows: Any, expression: str) -> None:
    with pytest.raises(Exception, match=r"DIVIDE_BY_ZERO|ARITHMETIC_OVERFLOW"):
        run(rows, f"SELECT {expression} FROM PCOLLECTION")


def test_an_overflow_is_none_without_ansi(spark: Any, rows: Any) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        query = "SELECT id * 9223372036854775807 FROM PCOLLECTION WHERE id = 7"
        assert run(rows, query) == [(2**63 - 7,)]
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_times_do_not_depend_on_the_time_zone_of_the_session(spark: Any, rows: Any) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        ((floor, text, now, utc, *others),) = run(
            rows,
            "SELECT FLOOR(ts TO HOUR), CAST(ts AS VARCHAR), CURRENT_TIMESTAMP, "
            "CAST(CAST(CAST(ts AS DATE) AS TIMESTAMP) AS VARCHAR), CEIL(ts TO DAY), "
            "TIMESTAMPDIFF(HOUR, CAST(ts AS DATE), ts), TIMESTAMPADD(DAY, 1, CAST(ts AS DATE)), "
            "FLOOR(CAST(ts AS DATE) TO MONTH), CAST(CAST(ts AS DATE) AS VARCHAR) "
            "FROM PCOLLECTION WHERE id = 7",
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert floor == datetime(2024, 3, 10, 2)
    assert (text, utc) == ("2024-03-10 02:30:15", "2024-03-10 00:00:00")
    days = [datetime(2024, 3, 11), 2, date(2024, 3, 11), date(2024, 3, 1), "2024-03-10"]
    assert others == days
    assert abs((datetime.now(UTC).replace(tzinfo=None) - now).total_seconds()) < 3600


@pytest.mark.part(5)
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
    ("query", "read"),
    [
        ("SELECT COUNT(*) FROM PCOLLECTION", ""),
        ("SELECT 1 FROM a", ""),
        ("SELECT p.x FROM a p JOIN b USING (id)", "id x"),
        ("SELECT p.x FROM a p NATURAL JOIN b", "id x"),
        ("SELECT p.* FROM a p", "id s x"),
        ("SELECT x FROM a WHERE EXISTS (SELECT * FROM b WHERE b.id = a.id)", "id x y"),
        ("SELECT COUNT(DISTINCT s) FROM a HAVING MAX(x) > 1 ORDER BY MIN(id) LIMIT 1", "id s x"),
        ("WITH c AS (SELECT * FROM b) SELECT COUNT(*) FROM c", "id y"),
        ("SELECT COUNT(a.*) FROM a", "id s x y"),
    ],
)
def test_a_query_tells_which_columns_it_reads(query: str, read: str) -> None:
    tables = {
        "PCOLLECTION": {"id": "bigint"},
        "a": {"id": "bigint", "s": "string", "x": "double"},
        "b": {"id": "bigint", "y": "double"},
    }
    found = parse(query, tables)
    assert " ".join(filter(found.reads, ("id", "s", "x", "y"))) == read


@pytest.mark.parametrize("kind", NODES, ids=lambda kind: kind.__name__)
def test_an_attribute_that_is_not_in_the_table_is_refused(kind: type[exp.Expr]) -> None:
    known = NODES[kind]
    for name in kind.arg_types:
        node = kind()
        node.set(name, exp.Literal.string("x"))
        is_known = name in known.names and name not in known.values
        if (known.spark is None and is_known) or name in (known.spark or ()):
            assert check_nodes(node) is not None
        elif not is_known:
            with pytest.raises(QueryRefused):
                check_nodes(node)


_OPERATORS = ("||", "ESCAPE", "EXTRACT", "SIMILAR", "TO", "IS", "NOT", "DISTINCT", "FROM")


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if isinstance(name, str)])
def test_another_number_of_arguments_is_an_error(name: str) -> None:
    least, most = FUNCTIONS[name].counts
    for count in range(6 if name not in _OPERATORS else 0):
        if not least <= count <= most:
            with pytest.raises(ConfigurationError, match=rf"{name} at .* got {count} |not valid"):
                parse(f"SELECT {name}({', '.join(['s'] * count)}) FROM PCOLLECTION", TABLES)


def test_a_function_that_is_not_in_the_table_is_refused() -> None:
    for kind in {*exp.FUNCTION_BY_NAME.values()} - {*NODES}:
        with pytest.raises(QueryRefused):
            check_nodes(kind())


@pytest.mark.parametrize(
    ("query", "clause"),
    [
        ("SELECT TIMESTAMP '2024-02-03 04:05:06+01:00'", "'2024-.*01:00' as a TIMESTAMP at line 1"),
        ("SELECT CAST('2024-02-03 04:05:06 UTC' AS TIMESTAMP)", "UTC' as a TIMESTAMP"),
        ("SELECT CAST('now' AS TIMESTAMP)", "'now' as a TIMESTAMP"),
        ("SELECT CURRENT_TIMESTAMP > 'epoch'", "'epoch' as a TIMESTAMP"),
        ("SELECT CAST('today' AS DATE)", "'today' as a DATE"),
        ("SELECT TIMESTAMPADD(DAY, 1.5, CURRENT_DATE)", "TIMESTAMPADD of 1.5 units"),
        (
            "SELECT (id, s) IN (SELECT id, s FROM PCOLLECTION) FROM PCOLLECTION",
            r"IN \(SELECT …\) of several columns at line 1",
        ),
        ("SELECT u FROM PCOLLECTION, UNNEST(MAP['a', id]) AS q(u)", "UNNEST of a MAP"),
        ("SELECT u FROM PCOLLECTION, UNNEST(ARRAY[id]) AS q(u, v)", "UNNEST of .* as 2 columns"),
    ],
)
def test_what_spark_would_take_otherwise_is_refused(query: str, clause: str) -> None:
    with pytest.raises(QueryRefused, match=clause):
        parse(query, TABLES).spark_sql(TABLES)


@pytest.mark.parametrize(
    "expression",
    [
        "CAST(CONCAT('2024-02-03 04:05:06', SUBSTRING('xZ', id - 5)) AS TIMESTAMP)",
        "CAST(SUBSTRING('xnow', id - 5) AS TIMESTAMP)",
        "CAST(SUBSTRING('xtoday', id - 5) AS DATE)",
        "CAST(SUBSTRING('x1.0d', id - 5) AS DOUBLE)",
    ],
)
def test_a_text_of_spark_alone_fails(rows: Any, expression: str) -> None:
    with pytest.raises(Exception, match="A SQL string is not a"):
        run(rows, f"SELECT {expression} FROM PCOLLECTION WHERE id > 0")


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ("SELECT u / 2, v FROM PCOLLECTION, UNNEST(rs) AS q(u, v)", "BIGINT TEXT"),
        ("SELECT q.x / 2, y FROM PCOLLECTION, UNNEST(rs) AS q", "BIGINT TEXT"),
        (
            "SELECT q.i, e.x FROM PCOLLECTION, UNNEST(rs) WITH ORDINALITY AS q(e, i)",
            "BIGINT BIGINT",
        ),
        (
            "SELECT m.y + 1 FROM PCOLLECTION p, LATERAL (SELECT p.id * 2 AS x) l, "
            "LATERAL (SELECT l.x / 3) m(y)",
            "BIGINT",
        ),
    ],
)
def test_columns_of_arrays_and_laterals_have_types(query: str, kinds: str) -> None:
    types = {"PCOLLECTION": {"id": "bigint", "rs": "array<struct<x: bigint, y: string>>"}}
    parsed = parse(query, types)
    assert " ".join(each.type.sql() for each in parsed.tree.selects if each.type) == kinds
    assert parsed.spark_sql(types)


def test_rows_of_an_array_have_as_many_columns_as_fields() -> None:
    types = {"PCOLLECTION": {"rs": "array<struct<x: bigint, y: string>>"}}
    parsed = parse("SELECT u FROM PCOLLECTION, UNNEST(rs) AS q(u, v, w)", types)
    with pytest.raises(QueryRefused, match="have 2 values, as 3 columns at line 1"):
        parsed.spark_sql(types)

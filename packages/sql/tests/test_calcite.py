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
        ("SELECT AVG(id) FILTER (WHERE id > 0) OVER () FROM PCOLLECTION", [(7,), (7,)]),
        ("SELECT id FROM PCOLLECTION WHERE LOCALTIMESTAMP > ts GROUP BY (id)", [(7,)]),
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
        ("SELECT id FROM PCOLLECTION WHERE s NOT IN (SELECT s FROM PCOLLECTION)", []),
        ("SELECT id FROM PCOLLECTION WHERE s IN ('abc', NULL)", [(7,)]),
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


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT ID FROM PCOLLECTION", r"no column 'ID' at line 1, column 8\. Did you mean 'id'\?"),
        ("SELECT p.idd\nFROM PCOLLECTION p", "no column 'p.idd' at line 1, column 8.*mean 'id'"),
        ("SELECT q.id FROM PCOLLECTION p", "There is no table 'q' for the column 'q.id'"),
        ("SELECT q.s.x FROM PCOLLECTION p", "There is no table 'q' for the column 'q.s.x'"),
        ("SELECT q.* FROM PCOLLECTION p", "FROM has no table 'q'"),
        ("SELECT id FROM PCOLLECTION p, PCOLLECTION q", "'id' is ambiguous.*'p.id' or 'q.id'"),
        ("SELECT 1 FROM PCOLLECTION, PCOLLECTION", "two tables named 'PCOLLECTION'"),
        (
            "SELECT 1 FROM PCOLLECTION p JOIN PCOLLECTION q USING (x)",
            "'x' of USING must be on both sides",
        ),
        ("SELECT id FROM pcollection", r"no table 'pcollection'.* mean 'PCOLLECTION'\?"),
        ("SELECT id FROM db.PCOLLECTION", "There is no table 'db.PCOLLECTION'"),
        ("SELECT id FROM PCOLLECTION; SELECT 1", "The query has 2 statements"),
        ("SELECT id FRM PCOLLECTION WHERE (", "not valid SQL"),
        ("SELECT id FROM", r"not valid SQL: Expected table name at line 1, column 14\.$"),
        ("SELECT id FROM PCOLLECTION WHERE", r": WHERE is incomplete at line 1, column 32\.$"),
        ("SELECT 'id FROM PCOLLECTION", "a quoted string or a comment is not closed"),
        ("SELECT", "SELECT has no columns"),
        ("SELECT id FROM (SELECT FROM PCOLLECTION)", "SELECT has no columns"),
        ('SELECT id AS "" FROM PCOLLECTION', '"" is not a name'),
        ("", "The query is empty"),
        ("-- SELECT 1", "The query is empty"),
        ("SELEC id FROM PCOLLECTION", "Did you mean SELECT instead of 'SELEC'"),
        ("SELEC id", "Did you mean SELECT instead of 'SELEC'"),
        ("SELECT id FRM PCOLLECTION", "unexpected 'PCOLLECTION'.*mean FROM instead of 'FRM'"),
        ("SELECT id FROM PCOLLECTION WHER id = 1", "Did you mean WHERE instead of 'WHER'"),
        ("SELECT id FROM PCOLLECTION GRUOP BY id", "Did you mean GROUP instead of 'GRUOP'"),
        ("FROM PCOLLECTION", "SELECT is missing before FROM"),
        ("SELECT id, FROM PCOLLECTION", "nothing follows the comma at line 1, column 10"),
        ("SELECT (id FROM PCOLLECTION", r"Expecting \)"),
        ("SELECT id + FROM PCOLLECTION", "an operand is missing"),
        ("SELECT ABS(id, 1) FROM PCOLLECTION", "ABS at line 1, column 8 got 2 .*, but expects 1"),
        ("SELECT POWER(id) FROM PCOLLECTION", r"POWER .* got 1 argument, but expects 2\."),
        ("SELECT SUBSTRING(s) FROM PCOLLECTION", "SUBSTRING .* got 1 argument, but expects 2 to 3"),
        ("SELECT POSITION('a', s, 1, 2) FROM PCOLLECTION", "POSITION .* got 4 .* expects 2 to 3"),
        ("SELECT MOD(id) FROM PCOLLECTION", "MOD .* got 1 argument, but expects 2"),
        ("SELECT MAX(id, 1) FROM PCOLLECTION", "aggregate MAX .* got 2 arguments, but expects 1"),
        ("SELECT COUNT(DISTINCT) FROM PCOLLECTION", "got 0 arguments, but expects at least 1"),
        ("SELECT COUNT(*, id) FROM PCOLLECTION", r"cannot have \* among its arguments"),
        ("SELECT *", r"SELECT \* at line 1, column 8 needs FROM|SELECT \* needs FROM"),
        (
            "SELECT 1 FROM PCOLLECTION p NATURAL JOIN PCOLLECTION q ON TRUE",
            "NATURAL JOIN .* have ON",
        ),
        ("SELECT 1 FROM PCOLLECTION p CROSS JOIN PCOLLECTION q USING (id)", "cannot have USING"),
        ("SELECT 1 FROM PCOLLECTION p JOIN PCOLLECTION q", "JOIN at .* has no condition. Add ON"),
        ("SELECT 1 FROM PCOLLECTION p LEFT JOIN PCOLLECTION q", "LEFT JOIN at .* has no condition"),
        ("SELECT 's3cret' 5 FROM PCOLLECTION", "unexpected value at line 1, column 17"),
        ("SELECT id FROM PCOLLECTION WHERE id IN ()", r"IN \(\) has no values"),
        (
            "SELECT id FROM PCOLLECTION WHERE s",
            "WHERE needs a condition, but PCOLLECTION.s is VARCHAR",
        ),
        ("SELECT NOT id FROM PCOLLECTION", "NOT needs a condition"),
        ("SELECT CASE WHEN id THEN 1 END FROM PCOLLECTION", "WHEN needs a condition"),
        ("SELECT id FROM PCOLLECTION WHERE COUNT(*) > 1", "COUNT is invalid in WHERE.*Use HAVING"),
        ("SELECT SUM(COUNT(*)) FROM PCOLLECTION", "SUM is an aggregate of an aggregate"),
        ("SELECT COUNT(*) FROM PCOLLECTION GROUP BY MAX(id)", "MAX is invalid in GROUP BY"),
        ("SELECT id, COUNT(*) FROM PCOLLECTION", "'id' is neither in GROUP BY nor within"),
        ("SELECT id + 2 FROM PCOLLECTION GROUP BY id + 1", "'id' is neither in GROUP BY"),
        ("SELECT s FROM PCOLLECTION GROUP BY s HAVING id > 1", "'id' is neither in GROUP BY"),
        ("SELECT COUNT(*) FROM PCOLLECTION ORDER BY id LIMIT 1", "'id' is neither in GROUP BY"),
        ("SELECT s FROM PCOLLECTION HAVING id > 1", "HAVING needs GROUP BY"),
        ("SELECT id FROM PCOLLECTION ORDER BY 5 LIMIT 1", "column 5, which the query does not"),
        ("SELECT id FROM PCOLLECTION LIMIT -1", "LIMIT -1 is not a number of rows"),
        ("SELECT id FROM PCOLLECTION LIMIT id", "is not a number of rows"),
        ("SELECT id FROM PCOLLECTION UNION SELECT id, s FROM PCOLLECTION", "have 1 and 2 columns"),
        (
            "SELECT id FROM PCOLLECTION EXCEPT SELECT s FROM PCOLLECTION",
            "Column 1 of the parts of EXCEPT is BIGINT and VARCHAR",
        ),
        (
            "SELECT id FROM PCOLLECTION UNION SELECT 1 ORDER BY s LIMIT 1",
            "ORDER BY of UNION refers to 's'",
        ),
        ("SELECT x FROM (VALUES (1), (2, 3)) AS v(x)", "Rows of VALUES have 1, 2 columns"),
        ("SELECT x FROM (VALUES (1, 2)) AS v(x)", "'v' names 1 columns, but there are 2"),
        ("SELECT x FROM PCOLLECTION AS p(x)", "'p' names 1 columns, but there are 2"),
        ("WITH w(x) AS (SELECT * FROM PCOLLECTION) SELECT x FROM w", "'w' names 1 columns"),
        ("SELECT CURRENT_DATE + INTERVAL 'x' DAY", "INTERVAL 'x' DAY is not valid"),
        ("SELECT CURRENT_DATE + INTERVAL '1' FORTNIGHT", "INTERVAL has no unit FORTNIGHT"),
        (
            "SELECT CURRENT_DATE + INTERVAL '1.30' MINUTE TO SECOND",
            "INTERVAL '1.30' MINUTE TO SECOND is not valid",
        ),
        (
            "SELECT TUMBLE_START(CURRENT_TIMESTAMP, INTERVAL '5' MINUTE) FROM PCOLLECTION "
            "GROUP BY TUMBLE(CURRENT_TIMESTAMP, INTERVAL '1' MINUTE)",
            "TUMBLE_START must have the arguments of the window in GROUP BY",
        ),
        ("SELECT TUMBLE_START(id, INTERVAL '5' MINUTE) FROM PCOLLECTION", "needs TUMBLE"),
        (f"SELECT {' + '.join(['id'] * 10_000)} FROM PCOLLECTION", "nested too deeply: 10,002"),
        (f"SELECT id IN ({'1,' * 60_000}1) FROM PCOLLECTION", "tokens, more than 100,000"),
        (f"SELECT {'(' * 3000}1", "nested too deeply: more than 500 nested parentheses"),
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
        ("SELECT id FROM PCOLLECTION LIMIT 5 PERCENT", "PERCENT"),
        ("SELECT 1 FROM PCOLLECTION p LEFT SEMI JOIN PCOLLECTION q ON TRUE", "LEFT SEMI JOIN"),
        ("SELECT 1 FROM PCOLLECTION p LEFT ANTI JOIN PCOLLECTION q ON TRUE", "LEFT ANTI JOIN"),
        ("SELECT 1 FROM PCOLLECTION p STRAIGHT_JOIN PCOLLECTION q", "STRAIGHT_JOIN"),
        ("SELECT DISTINCT ON (id) s FROM PCOLLECTION", "DISTINCT ON at line 1, column 21"),
        (
            "SELECT id FROM PCOLLECTION FOR SYSTEM_TIME AS OF TIMESTAMP '2020-01-01 00:00:00'",
            "FOR SYSTEM_TIME AS OF",
        ),
        ("SELECT ARRAY_AGG(id ORDER BY s) FROM PCOLLECTION", "ARRAY_AGG with ORDER BY"),
        ("SELECT ARRAY_AGG(id LIMIT 1) FROM PCOLLECTION", "ARRAY_AGG with LIMIT"),
        ("SELECT ANY_VALUE(id HAVING MAX s) FROM PCOLLECTION", "HAVING MAX within an aggregate"),
        (
            "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY id) FROM PCOLLECTION",
            "WITHIN GROUP",
        ),
        ("SELECT p.s.* FROM PCOLLECTION p", r"p\.s\.\* at line 1, column 8"),
        ("SELECT UNNEST(ARRAY[id]) FROM PCOLLECTION", "UNNEST outside of FROM"),
        ("SELECT id FROM PCOLLECTION QUALIFY RANK() OVER (ORDER BY id) = 1", "QUALIFY"),
        ("SELECT id FROM PCOLLECTION FOR UPDATE", "FOR UPDATE"),
        ("SELECT /*+ BROADCAST(PCOLLECTION) */ id FROM PCOLLECTION", "a hint"),
        ("SELECT id FROM PCOLLECTION WITH (NOLOCK)", "a table hint"),
        ("SELECT * EXCEPT (id) FROM PCOLLECTION", r"\* EXCEPT"),
        ("SELECT id FROM PCOLLECTION GROUP BY DISTINCT id", "GROUP BY DISTINCT"),
        ("SELECT id FROM PCOLLECTION GROUP BY ALL", "GROUP BY ALL"),
        ("SELECT s FROM PCOLLECTION GROUP BY s WITH ROLLUP", "WITH ROLLUP"),
        ("SELECT 1 UNION ALL BY NAME SELECT 2", "UNION BY NAME"),
        ("VALUES (1), (2) LIMIT 1", "LIMIT of VALUES"),
        (
            "SELECT SUM(id) OVER (ORDER BY id GROUPS 1 PRECEDING) FROM PCOLLECTION",
            "GROUPS in a window frame",
        ),
        (
            "SELECT SUM(id) OVER (ORDER BY id ROWS 1 PRECEDING EXCLUDE TIES) FROM PCOLLECTION",
            "EXCLUDE in a window frame",
        ),
        ("SELECT id > ALL (SELECT 1) FROM PCOLLECTION", r"a comparison with ALL \(SELECT"),
        ("SELECT id = ANY (SELECT 1) FROM PCOLLECTION", r"a comparison with ANY \(SELECT"),
        ("SELECT s COLLATE 'de' FROM PCOLLECTION", "COLLATE"),
        ("SELECT CURRENT_TIMESTAMP AT TIME ZONE 'UTC'", "AT TIME ZONE"),
        ("SELECT CAST(id AS TIMESTAMP WITH TIME ZONE) FROM PCOLLECTION", "the type TIMESTAMP"),
        ("SELECT CAST(id AS nosuch) FROM PCOLLECTION", "the type nosuch"),
        ("SELECT CAST(id AS TIMESTAMP(0)) FROM PCOLLECTION", r"the type TIMESTAMP\(0\) at"),
        ("SELECT CAST(s AS VARBINARY(1)) FROM PCOLLECTION", r"the type VARBINARY\(1\)"),
        ("SELECT CAST(id AS DECIMAL(39)) FROM PCOLLECTION", r"the type DECIMAL\(39\)"),
        ("SELECT CAST(id AS DECIMAL(5, 6)) FROM PCOLLECTION", r"the type DECIMAL\(5, 6\)"),
        ("SELECT CAST(id AS INTEGER(5)) FROM PCOLLECTION", r"the type INT\(5\)"),
        ("SELECT TRY_CAST(s AS INT) FROM PCOLLECTION", "TRY_CAST"),
        ("SELECT CURRENT_DATE + INTERVAL '5' SECOND(3)", "an INTERVAL with a precision"),
        ("SELECT MULTISET[1] FROM PCOLLECTION", "MULTISET"),
        ("SELECT CURRENT_TIMESTAMP - LOCALTIMESTAMP", "a difference of times"),
        ("SELECT INTERVAL '1' DAY AS i", "a column of the type INTERVAL"),
        ("SELECT LISTAGG(s, ',' ORDER BY s) FROM PCOLLECTION", "LISTAGG with ORDER BY"),
        ("SELECT LOCALTIMESTAMP(3)", "LOCALTIMESTAMP with a precision"),
        ("SELECT id IS JSON FROM PCOLLECTION", "IS JSON"),
        ("SELECT ? FROM PCOLLECTION", "a placeholder"),
        ("SELECT * FROM PCOLLECTION PIVOT (SUM(id) FOR s IN ('a', 'b'))", "PIVOT"),
        (
            "SELECT * FROM PCOLLECTION MATCH_RECOGNIZE (ORDER BY id MEASURES 1 AS m "
            "PATTERN (a b) DEFINE a AS id > 1)",
            "MATCH_RECOGNIZE",
        ),
        ("MERGE INTO PCOLLECTION USING PCOLLECTION ON TRUE WHEN MATCHED THEN DELETE", "MERGE"),
    ],
)
def test_a_clause_that_is_not_translated_is_named(query: str, clause: str) -> None:
    with pytest.raises(QueryRefused, match=clause):
        parse(query, TABLES)


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

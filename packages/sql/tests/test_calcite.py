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


@pytest.mark.part(3)
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            'SELECT `a b` + "a b", `class`, p.id FROM PCOLLECTION p',
            [(2, 2, 7), (6, 4, -7)],
        ),
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
    ],
)
def test_odd_names_and_long_queries_have_their_rows(
    rows: Any, query: str, expected: list[tuple[Any, ...]]
) -> None:
    assert sorted(run(rows, query), key=repr) == sorted(expected, key=repr)


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

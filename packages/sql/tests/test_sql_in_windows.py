"""Queries in windows and in streaming, in process."""

import functools
import operator
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.sql import SqlTransform
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    Repeatedly,
)
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampedValue,
)
from apache_beam.utils.timestamp import Timestamp
from in_process_batch import BatchRunner

from sparkbeam import ConfigurationError, UnsupportedTransform

pytest.importorskip("sqlglot")

from sparkbeam.connectors.query_frames import queried, timed
from sparkbeam_sql import calcite_expressions, calcite_nesting
from sparkbeam_sql.calcite import parse
from sparkbeam_sql.calcite_steps import steps_of
from sparkbeam_sql.lowered import Lowered, function
from sparkbeam_sql.rows import SqlRows
from sparkbeam_sql.steps import Union


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
TEN = "INTERVAL '10' SECOND"


def clicks(pipeline: beam.Pipeline, windows: Any = None, **named: Any) -> Any:
    rows = pipeline | beam.Create(CLICKS).with_output_types(Click)
    if windows is None:
        return rows
    stamped = rows | beam.Map(lambda row: TimestampedValue(row, row.at)).with_output_types(Click)
    return stamped | "In windows" >> beam.WindowInto(windows, **named)


def seen(rows: Any) -> Any:
    """Return the rows with the ends of their windows, in the global window."""

    def told(row: Any, window: Any = beam.DoFn.WindowParam) -> tuple[Any, ...]:
        return (int(window.end), *row)

    return rows | beam.Map(told) | "All" >> beam.WindowInto(GlobalWindows())


@pytest.mark.part(5)
@pytest.mark.parametrize(
    ("query", "windows", "expected"),
    [
        ("SELECT COUNT(*) FROM PCOLLECTION", FixedWindows(10), [(10, 1), (20, 2), (30, 1)]),
        ("SELECT id FROM PCOLLECTION WHERE n > 1", FixedWindows(10), [(20, 17), (30, -25)]),
        (
            "SELECT SUM(id) FROM PCOLLECTION",
            SlidingWindows(20, 10),
            [(10, 5), (20, 37), (30, 7), (40, -25)],
        ),
        ("SELECT MAX(price) FROM PCOLLECTION", Sessions(3), [(8, 1.5), (20, 3.5), (28, 4.5)]),
        (
            f"SELECT COUNT(*) FROM PCOLLECTION GROUP BY TUMBLE(at, {TEN})",
            None,
            [(10, 1), (20, 2), (30, 1)],
        ),
        (
            f"SELECT SUM(id) FROM PCOLLECTION GROUP BY HOP(at, {TEN}, INTERVAL '20' SECOND)",
            None,
            [(10, 5), (20, 37), (30, 7), (40, -25)],
        ),
        (
            "SELECT MAX(price) FROM PCOLLECTION GROUP BY SESSION(at, INTERVAL '3' SECOND)",
            None,
            [(8, 1.5), (20, 3.5), (28, 4.5)],
        ),
        (
            "SELECT id FROM PCOLLECTION ORDER BY id DESC LIMIT 1",
            FixedWindows(10),
            [(10, 5), (20, 17), (30, -25)],
        ),
        (
            "SELECT id FROM PCOLLECTION ORDER BY n LIMIT 1 OFFSET 1",
            SlidingWindows(20, 10),
            [(20, 17), (30, -25)],
        ),
        (
            f"SELECT COUNT(*) AS n FROM PCOLLECTION GROUP BY TUMBLE(at, {TEN}) ORDER BY n LIMIT 1",
            None,
            [(10, 1), (20, 2), (30, 1)],
        ),
        (
            "SELECT y FROM PCOLLECTION p, LATERAL (SELECT p.id + n AS y) l",
            FixedWindows(10),
            [(10, 6), (20, None), (20, 21), (30, -18)],
        ),
        (
            f"SELECT TUMBLE_START(at, {TEN}), TUMBLE_END(at, {TEN}), user, COUNT(*) "
            f"FROM PCOLLECTION WHERE id > 5 GROUP BY user, TUMBLE(at, {TEN}) "
            "HAVING COUNT(user) > 0",
            None,
            [(20, Timestamp(10), Timestamp(20), "bob", 1)],
        ),
        (
            "SELECT p.id, q.id FROM PCOLLECTION p JOIN PCOLLECTION q ON p.n = q.n AND p.id < 6",
            FixedWindows(10),
            [(10, 5, 5), (30, -25, -25)],
        ),
        (
            f"SELECT c, a.s FROM (SELECT COUNT(*) c, TUMBLE_START(at, {TEN}) s FROM PCOLLECTION "
            f"GROUP BY TUMBLE(at, {TEN})) a JOIN (SELECT id, TUMBLE_START(at, {TEN}) s FROM "
            f"PCOLLECTION GROUP BY id, TUMBLE(at, {TEN})) b ON a.s = b.s AND b.id >= 15",
            None,
            [(20, 2, Timestamp(10))] * 2,
        ),
        (
            "SELECT p.id, m.n FROM PCOLLECTION p JOIN (SELECT MAX(n) AS n FROM PCOLLECTION) m "
            "ON p.n = m.n",
            FixedWindows(10),
            [(10, 5, 1), (20, 17, 4), (30, -25, 7)],
        ),
        (
            "SELECT p.id FROM (SELECT MIN(price) AS low FROM PCOLLECTION WHERE id > 5) m "
            "JOIN PCOLLECTION p ON p.price = m.low AND p.user <> 'ada'",
            SlidingWindows(20, 10),
            [(20, 15), (30, 15)],
        ),
        (
            f"WITH counts AS (SELECT user, COUNT(*) AS c, HOP_START(at, {TEN}, {TEN}) AS s "
            f"FROM PCOLLECTION GROUP BY user, HOP(at, {TEN}, {TEN})) "
            "SELECT a.user, m.s FROM counts a JOIN (SELECT MAX(c) AS c, s FROM counts GROUP BY s) "
            "m ON a.s = m.s AND a.c = m.c",
            None,
            [
                (10, "ada", Timestamp(0)),
                (20, "bob", Timestamp(10)),
                (20, None, Timestamp(10)),
                (30, "ada", Timestamp(20)),
            ],
        ),
        (
            f"SELECT a.c, p.id FROM (SELECT COUNT(*) AS c, TUMBLE_START(at, {TEN}) AS s FROM "
            f"PCOLLECTION GROUP BY TUMBLE(at, {TEN})) a JOIN (SELECT MAX(id) AS id, "
            f"TUMBLE_START(at, {TEN}) AS s FROM PCOLLECTION WHERE n > 1 GROUP BY "
            f"TUMBLE(at, {TEN})) p ON a.s = p.s",
            None,
            [(20, 2, 17), (30, 1, -25)],
        ),
        (
            "SELECT p.id, q.id FROM PCOLLECTION p, PCOLLECTION q WHERE p.n = q.n AND p.id < 6",
            FixedWindows(10),
            [(10, 5, 5), (30, -25, -25)],
        ),
        (
            "SELECT id FROM PCOLLECTION WHERE n IN (SELECT MAX(n) FROM PCOLLECTION)",
            FixedWindows(10),
            [(10, 5), (20, 17), (30, -25)],
        ),
        (
            "SELECT id FROM PCOLLECTION WHERE id NOT IN (SELECT n FROM PCOLLECTION)",
            FixedWindows(10),
            [(10, 5), (30, -25)],
        ),
        (
            "SELECT id FROM PCOLLECTION p WHERE NOT EXISTS "
            "(SELECT 1 FROM PCOLLECTION q WHERE q.n = p.n AND q.id > 0)",
            FixedWindows(10),
            [(20, 15), (30, -25)],
        ),
        (
            "SELECT id, (SELECT COUNT(*) FROM PCOLLECTION q WHERE q.n = p.n) AS c, "
            "(SELECT MAX(price) FROM PCOLLECTION) - price AS d FROM PCOLLECTION p",
            FixedWindows(10),
            [(10, 5, 1, 0.0), (20, 15, 0, 1.0), (20, 17, 1, 0.0), (30, -25, 1, 0.0)],
        ),
        (
            "SELECT p.id, x FROM PCOLLECTION p LEFT JOIN (VALUES ROW(5, 'a'), ROW(17, 'b')) "
            "AS v(k, x) ON p.id = v.k",
            FixedWindows(10),
            [(10, 5, "a"), (20, 15, None), (20, 17, "b"), (30, -25, None)],
        ),
        (
            "SELECT x, p.id FROM (VALUES (5, 'a'), (17, 'b')) AS v(k, x) JOIN PCOLLECTION p "
            "ON p.id = v.k",
            FixedWindows(10),
            [(10, "a", 5), (20, "b", 17)],
        ),
        (
            "SELECT COUNT(n, user), COUNT(id, n) FILTER (WHERE id <> 17) FROM PCOLLECTION",
            FixedWindows(10),
            [(10, 1, 1), (20, 0, 0), (30, 1, 1)],
        ),
        (
            "SELECT id FROM PCOLLECTION WHERE n BETWEEN SYMMETRIC 5 AND 1",
            FixedWindows(10),
            [(10, 5), (20, 17)],
        ),
        (
            "SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE PCOLLECTION, "
            f"DESCRIPTOR(at), {TEN})) GROUP BY window_start, window_end",
            None,
            [(10, Timestamp(10), 1), (20, Timestamp(20), 2), (30, Timestamp(30), 1)],
        ),
        (
            f"SELECT w.id, w.window_start FROM TABLE(HOP(DATA => TABLE PCOLLECTION, TIMECOL => "
            f"DESCRIPTOR(at), SIZE => INTERVAL '20' SECOND, SLIDE => {TEN})) AS w WHERE id > 5",
            None,
            [(t, i, Timestamp(t - 20)) for i in (15, 17) for t in (20, 30)],
        ),
        (
            "SELECT u, k, COUNT(*) FROM PCOLLECTION AS p(k, u, x, y, z) GROUP BY (u, k)",
            FixedWindows(10),
            [(10, "ada", 5, 1), (20, "bob", 15, 1), (20, None, 17, 1), (30, "ada", -25, 1)],
        ),
    ],
)
def test_a_query_is_one_of_each_window(query: str, windows: Any, expected: list[Any]) -> None:
    with beam.Pipeline(runner=BatchRunner()) as pipeline:
        rows = clicks(pipeline, windows) | SqlTransform(query)
        assert_that(seen(rows), equal_to(expected))


SAME_AS_SPARK = [
    "id / 2, -id / 4, MOD(id, 4), id * price, id + 1, id - n, n / id, 7 / 2, 1.5 * price",
    "user || 'x', UPPER(user), CHAR_LENGTH(user), SUBSTRING(user FROM 2 FOR 1), ABS(id)",
    "n IS NULL, n IS NOT NULL, NOT (n > 1), n > 1 AND id > 5, n > 1 OR id > 5, n <> 4",
    "n IN (1, 4), n NOT IN (1, 4), n BETWEEN 1 AND 4, n NOT BETWEEN 1 AND 4, id = 5.0",
    "(n > 1) IS TRUE, (n > 1) IS NOT TRUE, (n > 1) IS FALSE, NOT (n > 1 AND id > 5)",
    "CASE WHEN n > 1 THEN 'big' WHEN n = 1 THEN 'one' END, CASE id WHEN 5 THEN n ELSE 0 END",
    "COALESCE(n, id), COALESCE(user, 'nobody'), COALESCE(n, n, 3)",
    "CAST(price AS BIGINT), CAST(id AS DOUBLE), CAST(id AS VARCHAR), CAST('12' AS BIGINT)",
    "n / 2 / 2 - id / (n + 10) / 2, MOD(-n / 2, 3), COALESCE(n / 4, id / n, id), n / 2 IS NULL",
    "(n / 2) BETWEEN 0 AND n, (n / 2) IN (0, 2), CASE WHEN n / 2 = n - n / 2 THEN n / 2 END",
    "at = TIMESTAMP '1970-01-01 00:00:05', at > TIMESTAMP '1970-01-01 00:00:15.5'",
]
QUERIES = [
    *(f"SELECT {items} FROM PCOLLECTION" for items in SAME_AS_SPARK),
    "SELECT id FROM PCOLLECTION WHERE NOT (n > 1)",
    "SELECT id FROM PCOLLECTION WHERE n > 1 OR user = 'bob'",
    "SELECT COUNT(*), COUNT(n), SUM(n), AVG(n), AVG(price), MIN(n), MAX(user) FROM PCOLLECTION",
    "SELECT user, COUNT(*), SUM(n), AVG(n), MIN(n) FROM PCOLLECTION GROUP BY user",
    "SELECT COUNT(DISTINCT user), COUNT(*) FILTER (WHERE n > 1) FROM PCOLLECTION",
    "SELECT id > 5, SUM(id) + 1 FROM PCOLLECTION GROUP BY id > 5 HAVING SUM(id) > -100",
    "SELECT at, COUNT(*) FROM PCOLLECTION GROUP BY at",
    "SELECT DISTINCT n > 1, user IS NULL FROM PCOLLECTION",
    "SELECT id FROM PCOLLECTION UNION ALL SELECT n FROM PCOLLECTION",
    "SELECT user FROM PCOLLECTION UNION SELECT UPPER(user) FROM PCOLLECTION",
    "WITH w AS (SELECT id AS i, n FROM PCOLLECTION) SELECT a.i, b.n FROM w a JOIN w b ON a.i = b.i",
    "SELECT a.id, b.id FROM PCOLLECTION a LEFT JOIN PCOLLECTION b ON a.n = b.n AND a.id = b.id",
    "SELECT a.id, b.id FROM PCOLLECTION a FULL JOIN PCOLLECTION b ON a.n = b.id",
    "SELECT a.id, c.id FROM PCOLLECTION a JOIN PCOLLECTION b ON a.n = b.n JOIN PCOLLECTION c "
    "ON b.user = c.user WHERE c.price > 2",
]


QUERIES += [
    f"SELECT p.id FROM PCOLLECTION p WHERE {condition}"
    for condition in [
        *("n IN (SELECT n FROM PCOLLECTION)", "n NOT IN (SELECT n FROM PCOLLECTION)"),
        "n NOT IN (SELECT n FROM PCOLLECTION WHERE n > 1)",
        "n NOT IN (SELECT n FROM PCOLLECTION WHERE n > 100)",
        "id > 0 AND NOT (n IN (SELECT q.n FROM PCOLLECTION q WHERE q.user = 'ada'))",
        "EXISTS (SELECT 1 FROM PCOLLECTION q WHERE q.n = p.id - 13 AND q.id > 0)",
        "NOT EXISTS (SELECT * FROM PCOLLECTION q WHERE q.n = p.n AND q.user = p.user)",
        "EXISTS (SELECT 1 FROM PCOLLECTION WHERE n > 100)",
        "NOT EXISTS (SELECT MAX(n) FROM PCOLLECTION)",
        "price > (SELECT AVG(price) FROM PCOLLECTION)",
        "n = (SELECT MAX(q.n) FROM PCOLLECTION q WHERE q.user = p.user)",
        "(SELECT COUNT(*) FROM PCOLLECTION q WHERE q.n = p.n AND q.id < 10) = 0",
        "id = (SELECT id FROM PCOLLECTION ORDER BY price DESC LIMIT 1)",
        "n IN (SELECT n FROM PCOLLECTION UNION SELECT id FROM PCOLLECTION)",
        "id BETWEEN SYMMETRIC 16 AND n OR n NOT BETWEEN SYMMETRIC 9 AND 2",
        "((n > 1) = (user = 'ada')) IS NOT TRUE",
    ]
]
QUERIES += ["SELECT COUNT(*) FROM PCOLLECTION WHERE n = (SELECT MAX(n) FROM PCOLLECTION)"]
QUERIES += [
    "SELECT p.id, q.id, r.id FROM PCOLLECTION p, PCOLLECTION q, PCOLLECTION r "
    "WHERE p.n = r.n AND q.id = r.id AND p.id > 0",
    "SELECT p.id, q.id FROM PCOLLECTION p CROSS JOIN PCOLLECTION q WHERE p.n = q.n",
    "SELECT COUNT(n, user), COUNT(user, n) FILTER (WHERE id > 0), COUNT(id) FROM PCOLLECTION",
    "SELECT k, COUNT(*) FROM PCOLLECTION AS p(i, k, x, y, z) GROUP BY (k, i)",
    "SELECT id, n FROM PCOLLECTION NATURAL JOIN (SELECT id, 1 AS one FROM PCOLLECTION) q",
    "SELECT id FROM PCOLLECTION UNION ALL SELECT n FROM PCOLLECTION UNION ALL "
    "(SELECT 1 + id FROM PCOLLECTION UNION SELECT n FROM PCOLLECTION)",
]


QUERIES += [
    f"SELECT p.id, m.* FROM PCOLLECTION p JOIN (SELECT {only} FROM PCOLLECTION{end}) m ON {on}"
    for only, end, on in [
        ("MAX(price) AS x", "", "p.price = m.x"),
        ("MAX(at) AS x, COUNT(*) AS c", "", "p.at = m.x"),
        ("MAX(n) AS x, MIN(user) AS u", "", "p.n + 0 = m.x AND UPPER(p.user) = UPPER(m.u)"),
        ("SUM(n) AS x", " WHERE n > 100", "p.n = m.x"),
        ("MAX(n) AS x", " HAVING COUNT(*) > 100", "p.n = m.x"),
        ("MAX(n) AS x, MIN(n) AS y", "", "p.n = m.x AND p.id < m.y"),
    ]
]


@pytest.mark.part(5)
@pytest.mark.parametrize("query", QUERIES)
def test_steps_have_the_rows_of_spark(spark: Any, query: str) -> None:
    with beam.Pipeline(runner=BatchRunner()) as pipeline:
        table = SqlRows.of(clicks(pipeline), "PCOLLECTION")
        types = {"PCOLLECTION": table.types}
        parsed = parse(query, types)
        data = [(*row[:3], row.at.to_utc_datetime(), row.n, 0) for row in CLICKS]
        frame = spark.createDataFrame(data, timed(table.schema))
        found = queried(spark, parsed.spark_sql(types), [frame]).collect()
        expected = [tuple(map(_plain, row[:-1])) for row in found]
        steps = steps_of(parsed, {"PCOLLECTION": table.kinds})
        rows = Lowered(pipeline, {"PCOLLECTION": table.pcollection}).result(steps, parsed.columns)
        plain = rows | "Plain" >> beam.Map(lambda row: tuple(map(_plain, row)))
        assert_that(plain, equal_to(expected))


N = 400
LONG = {
    " OR ".join(f"n = {at}" for at in range(N)): lambda n: n < N,
    " AND ".join(f"n <> {at}" for at in range(N)): lambda n: n >= N,
    f"n IN ({', '.join(map(str, range(N)))})": lambda n: n < N,
    f"CASE {' '.join(f'WHEN n = {at} THEN {at + 1}' for at in range(N))} END": (
        lambda n: n + 1 if n < N else None
    ),
    " + ".join(["n"] * N): lambda n: N * n,
    " + ".join(["m"] * N): lambda n: N * n,
    " - ".join(["0.1e0"] * N): lambda n: functools.reduce(operator.sub, [0.1] * N),
    " || ".join(["s"] * N): lambda n: "s" * N,
    f"CONCAT({', '.join(['s'] * N)})": lambda n: "s" * N,
    f"{'(' * N}n{')' * N}": lambda n: n,
    f"{'(m + ' * N}n{')' * N}": lambda n: (N + 1) * n,
    f"{'ABS(' * N}-m{')' * N}": abs,
    f"{'COALESCE(' * N}NULLIF(n, n){', m)' * N}": lambda n: n,
    f"{''.join(f'CASE WHEN m = {at} THEN {at} ELSE ' for at in range(N))}-1{' END' * N}": (
        lambda n: n if n < N else -1
    ),
    f"{'(' * N}m > 0{' = (m > 0))' * N}": lambda n: n > 0,
    f"{'NOT ' * N}(m > 5)": lambda n: n > 5,
}


@pytest.mark.part(5)
@pytest.mark.parametrize(
    ("expression", "value"), LONG.items(), ids=[f"{text[:12]}" for text in LONG]
)
def test_expressions_may_be_long_and_nested(expression: str, value: Any) -> None:
    kinds = {"n": (int, False), "m": (int, True), "s": (str, True)}
    types = {"n": "bigint", "m": "bigint", "s": "string"}
    query = parse(f"SELECT {expression} FROM PCOLLECTION", {"PCOLLECTION": types})
    (found,) = steps_of(query, {"PCOLLECTION": kinds}).values
    compute = function(found.source)
    for number in (0, 3, 399, 400):
        row = beam.Row(n=number, m=number, s="s")
        assert compute(row) == value(number), number
    assert query.spark_sql({"PCOLLECTION": types})


def test_a_chain_of_unions_may_be_long() -> None:
    query = parse(" UNION ALL ".join(["SELECT n FROM t"] * 300), {"t": {"n": "bigint"}})
    whole = steps_of(query, {"t": {"n": (int, True)}}).step
    assert isinstance(whole, Union)
    assert len(whole.steps) == 300


def test_a_divided_expression_has_the_same_value(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {"id": (int, False), "user": (str, True), "price": (float, False), "n": (int, True)}
    kinds["at"] = (Timestamp, False)
    types = {
        "id": "bigint",
        "user": "string",
        "price": "double",
        "at": "timestamp_ntz",
        "n": "bigint",
    }
    for items in SAME_AS_SPARK:
        query = parse(f"SELECT {items} FROM PCOLLECTION", {"PCOLLECTION": types})
        for value in steps_of(query, {"PCOLLECTION": kinds}).values:
            whole = function(value.source)
            with monkeypatch.context() as patch:
                patch.setattr(calcite_nesting, "_DEEPEST", 1)
                divided = function(value.source)
            assert list(map(divided, CLICKS)) == list(map(whole, CLICKS)), value.source


@pytest.mark.parametrize(
    "level", ["{} / n", "MOD({}, n + 10)", "COALESCE({}, n)", "n - {}", "CAST({} AS DOUBLE) / n"]
)
def test_the_text_of_an_expression_grows_with_its_levels(level: str) -> None:
    expression = "n"
    for _ in range(16):
        expression = f"({level.format(expression)})"
    query = parse(f"SELECT {expression} FROM PCOLLECTION", {"PCOLLECTION": {"n": "bigint"}})
    (value,) = steps_of(query, {"PCOLLECTION": {"n": (int, True)}}).values
    assert len(value.source) < 5_000


def _plain(value: Any) -> Any:
    if isinstance(value, Timestamp):
        return str(value.to_utc_datetime())
    return str(value) if hasattr(value, "year") else value


@pytest.mark.parametrize(
    ("query", "clause"),
    [
        ("SELECT id FROM PCOLLECTION OFFSET 1", "OFFSET without LIMIT"),
        ("SELECT id FROM PCOLLECTION LIMIT 1 + 1", "LIMIT or OFFSET 1 . 1"),
        ("SELECT DISTINCT id FROM PCOLLECTION ORDER BY n LIMIT 1", "DISTINCT with ORDER BY"),
        ("SELECT 1 FROM PCOLLECTION p, LATERAL (SELECT COUNT(*) FROM PCOLLECTION) l", "LATERAL"),
        ("SELECT id FROM PCOLLECTION EXCEPT SELECT n FROM PCOLLECTION", "EXCEPT"),
        ("SELECT id FROM PCOLLECTION INTERSECT SELECT n FROM PCOLLECTION", "INTERSECT"),
        ("SELECT SUM(id) FROM PCOLLECTION GROUP BY GROUPING SETS ((user), ())", "GROUPING SETS"),
        ("SELECT VAR_POP(DISTINCT id) FROM PCOLLECTION", "DISTINCT"),
        ("SELECT SUM(user) FROM PCOLLECTION", "SUM of a value that is not a number"),
        ("SELECT user = id FROM PCOLLECTION", "user"),
        ("SELECT user / 2 FROM PCOLLECTION", "user"),
        ("SELECT CASE WHEN n > 1 THEN id ELSE user END FROM PCOLLECTION", "CASE"),
        (
            "SELECT x FROM PCOLLECTION, UNNEST(ARRAY[1, 2]) WITH ORDINALITY AS t(x, i)",
            "WITH ORDINALITY in windows",
        ),
        ("SELECT RAND(id) FROM PCOLLECTION", "RAND"),
        ("SELECT COVAR_POP(price, price) FROM PCOLLECTION", "COVAR_POP"),
        ("SELECT id, ROW_NUMBER() OVER (ORDER BY id) FROM PCOLLECTION", "OVER"),
        ("SELECT SUM(id) OVER (PARTITION BY user) FROM PCOLLECTION", "OVER"),
        ("SELECT n IN (SELECT id FROM PCOLLECTION) FROM PCOLLECTION", "IN .SELECT"),
        (
            "SELECT 1 FROM PCOLLECTION p WHERE EXISTS (SELECT 1 FROM PCOLLECTION q "
            "WHERE q.id > p.id)",
            "correlated other than by equalities",
        ),
        ("SELECT (SELECT n FROM PCOLLECTION) FROM PCOLLECTION", "may have several rows"),
        (
            "SELECT user FROM PCOLLECTION GROUP BY user "
            "HAVING COUNT(*) > (SELECT MIN(n) FROM PCOLLECTION)",
            "a subquery next to aggregates",
        ),
        ("SELECT COUNT(DISTINCT id, n) FROM PCOLLECTION", "several columns in windows"),
        (
            f"SELECT * FROM TABLE(SESSION(TABLE PCOLLECTION, DESCRIPTOR(at), {TEN}))",
            "TABLE.SESSION",
        ),
        ("SELECT * FROM TABLE(TUMBLE(TABLE PCOLLECTION, DESCRIPTOR(at)))", "these arguments"),
        (f"SELECT * FROM TABLE(TUMBLE(TABLE PCOLLECTION, at, {TEN}))", "DESCRIPTOR.column"),
        ("SELECT 1 FROM PCOLLECTION p JOIN PCOLLECTION q ON p.id = q.user", "different types"),
        (
            "SELECT at + INTERVAL '1:30' MINUTE TO SECOND FROM PCOLLECTION",
            "MINUTE TO SECOND in windows",
        ),
        ("SELECT COUNT(*) FROM PCOLLECTION GROUP BY TUMBLE(at, INTERVAL '0' DAY)", "interval"),
        ("SELECT 1 FROM PCOLLECTION GROUP BY TUMBLE(at, INTERVAL - '1' DAY)", "interval"),
        ("SELECT 1 FROM PCOLLECTION GROUP BY TUMBLE(at, INTERVAL id MINUTE)", "interval"),
        ("SELECT 1 FROM PCOLLECTION a JOIN PCOLLECTION b ON a.id > b.id", "JOIN"),
        ("SELECT COUNT(*) FROM PCOLLECTION GROUP BY ROLLUP(user)", "ROLLUP"),
        ("SELECT COUNT(*) FROM PCOLLECTION GROUP BY TUMBLE(id, INTERVAL '1' DAY)", "TUMBLE"),
        ("SELECT COUNT(*) FROM PCOLLECTION GROUP BY TUMBLE(at, INTERVAL '1' MONTH)", "interval"),
    ],
)
def test_a_clause_that_has_no_meaning_in_windows_is_named(query: str, clause: str) -> None:
    rows = clicks(beam.Pipeline(runner=BatchRunner()), FixedWindows(10))
    with pytest.raises(UnsupportedTransform, match=f"'Query' cannot run.*{clause}"):
        _ = rows | "Query" >> SqlTransform(query)


def test_an_error_of_a_translation_names_the_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calcite_expressions, "called", lambda *_: int("x"))
    rows = clicks(beam.Pipeline(runner=BatchRunner()), FixedWindows(10))
    wrong = r"'Query': LENGTH\(.*user\) at line 1, column 13 cannot be translated: ValueError"
    with pytest.raises(ConfigurationError, match=wrong):
        _ = rows | "Query" >> SqlTransform("SELECT id + LENGTH(user) FROM PCOLLECTION")


def stream(*batches: list[tuple[int, Click]]) -> TestStream:
    events = TestStream()
    for batch in batches:
        elements = [TimestampedValue(click, at) for at, click in batch]
        events = events.add_elements(elements).advance_watermark_to(max(at for at, _ in batch))
    return events.advance_watermark_to_infinity()


def test_a_stream_is_selected_and_aggregated_in_windows() -> None:
    options = PipelineOptions(["--streaming"])
    with beam.Pipeline(runner=BatchRunner(), options=options) as pipeline:
        events = stream([(5, CLICKS[0]), (15, CLICKS[1])], [(17, CLICKS[2]), (25, CLICKS[3])])
        rows = pipeline | events.with_output_types(Click)
        some = rows | "Some" >> SqlTransform("SELECT id, at FROM PCOLLECTION WHERE price > 2")
        counts = some | "Count" >> SqlTransform(
            f"SELECT COUNT(*) FROM PCOLLECTION GROUP BY TUMBLE(at, {TEN})"
        )
        assert_that(seen(counts), equal_to([(20, 2), (30, 1)]))


def test_triggers_and_lateness_of_the_input_hold() -> None:
    options = PipelineOptions(["--streaming"])
    with beam.Pipeline(runner=BatchRunner(), options=options) as pipeline:
        late = Click(1, "ada", 0.5, Timestamp(6), 1)
        events = stream([(5, CLICKS[0])], [(15, CLICKS[1])], [(6, late), (25, CLICKS[3])])
        rows = pipeline | events.with_output_types(Click)
        windowed = rows | beam.WindowInto(
            FixedWindows(10),
            trigger=AfterWatermark(early=AfterCount(1), late=AfterCount(1)),
            accumulation_mode=AccumulationMode.ACCUMULATING,
            allowed_lateness=100,
        )
        sums = windowed | SqlTransform("SELECT SUM(id) FROM PCOLLECTION")
        panes = sums | beam.Map(lambda row, pane=beam.DoFn.PaneInfoParam: (row[0], pane.timing))
        late_panes = panes | beam.Filter(lambda pane: pane[0] == 6) | beam.Map(lambda pane: pane[0])
        assert_that(late_panes | "All" >> beam.WindowInto(GlobalWindows()), equal_to([6]))


def test_the_first_rows_of_a_window_are_those_of_its_panes() -> None:
    options = PipelineOptions(["--streaming"])
    with beam.Pipeline(runner=BatchRunner(), options=options) as pipeline:
        late = Click(9, "ada", 0.5, Timestamp(6), 1)
        rows = pipeline | stream(
            [(5, CLICKS[0]), (4, late._replace(id=2))],
            [(15, CLICKS[1])],
            [(6, late), (25, CLICKS[3])],
        ).with_output_types(Click)
        windowed = rows | beam.WindowInto(
            FixedWindows(10),
            trigger=AfterWatermark(late=AfterCount(1)),
            accumulation_mode=AccumulationMode.ACCUMULATING,
            allowed_lateness=100,
        )
        first = windowed | SqlTransform("SELECT id FROM PCOLLECTION ORDER BY id DESC LIMIT 2")
        assert_that(
            seen(first), equal_to([(10, 5), (10, 2), (20, 15), (10, 9), (10, 5), (30, -25)])
        )


def test_a_stream_is_joined_to_what_is_bounded() -> None:
    options = PipelineOptions(["--streaming"])
    with beam.Pipeline(runner=BatchRunner(), options=options) as pipeline:
        names = pipeline | beam.Create([beam.Row(user="ada", name="Ada L.")])
        events = stream([(5, CLICKS[0]), (15, CLICKS[1]), (17, CLICKS[2])])
        rows = {
            "clicks": pipeline | events.with_output_types(Click),
            "names": names,
        } | SqlTransform("SELECT id, name FROM clicks LEFT JOIN names ON clicks.user = names.user")
        assert_that(rows, equal_to([(5, "Ada L."), (15, None), (17, None)]))


@pytest.mark.parametrize(
    ("query", "clause"),
    [
        ("SELECT COUNT(*) FROM PCOLLECTION", "aggregates and DISTINCT"),
        ("SELECT DISTINCT user FROM PCOLLECTION", "DISTINCT"),
        ("SELECT id FROM PCOLLECTION UNION SELECT n FROM PCOLLECTION", "DISTINCT"),
        ("SELECT id FROM PCOLLECTION ORDER BY id LIMIT 1", "LIMIT"),
        ("SELECT 1 FROM PCOLLECTION a LEFT JOIN PCOLLECTION b ON a.n = b.n", "An outer JOIN"),
        ("SELECT id FROM PCOLLECTION WHERE n = (SELECT MAX(n) FROM PCOLLECTION)", "DISTINCT"),
    ],
)
def test_a_stream_that_never_ends_is_not_grouped(query: str, clause: str) -> None:
    pipeline = beam.Pipeline(runner=BatchRunner(), options=PipelineOptions(["--streaming"]))
    rows = pipeline | stream([(5, CLICKS[0])]).with_output_types(Click)
    with pytest.raises(ConfigurationError, match=f"'Query': .*{clause} of a stream in the global"):
        _ = rows | "Query" >> SqlTransform(query)


def test_a_trigger_of_the_global_window_fires_panes() -> None:
    with beam.Pipeline(runner=BatchRunner()) as pipeline:
        rows = clicks(
            pipeline,
            GlobalWindows(),
            trigger=Repeatedly(AfterProcessingTime(0)),
            accumulation_mode=AccumulationMode.DISCARDING,
        )
        counts = rows | SqlTransform("SELECT COUNT(*) AS n FROM PCOLLECTION")
        assert_that(counts | beam.Map(lambda row: row.n), equal_to([4]))


class Measured(NamedTuple):
    value: float | None


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1.5, None, 1.5], 2),
        # As in Calcite, NaN is the greatest number and is equal to nothing.
        ([1.5, float("nan"), None, float("nan")], 0),
        ([0.0, -0.0, -1.0], 2),
        ([None, None], 0),
        ([], 0),
    ],
)
def test_a_greatest_number_is_found_again(values: list[float | None], found: int) -> None:
    with beam.Pipeline(runner=BatchRunner()) as pipeline:
        rows = pipeline | beam.Create(list(map(Measured, values))).with_output_types(Measured)
        windowed = rows | "In windows" >> beam.WindowInto(FixedWindows(10))
        highest = windowed | SqlTransform(
            "SELECT p.value FROM PCOLLECTION p JOIN (SELECT MAX(value) AS m FROM PCOLLECTION) q "
            "ON p.value = q.m"
        )
        assert_that(seen(highest) | beam.combiners.Count.Globally(), equal_to([found]))


class Place(NamedTuple):
    city: str
    zip: int | None


class Person(NamedTuple):
    id: int
    home: Place
    other: Place | None


def test_fields_of_rows_are_computed_with_in_windows() -> None:
    people = [Person(1, Place("é", None), None), Person(2, Place("b", 5), Place("c", 7))]
    with beam.Pipeline(runner=BatchRunner()) as pipeline:
        rows = pipeline | beam.Create(people).with_output_types(Person)
        found = (
            rows
            | beam.WindowInto(FixedWindows(1))
            | SqlTransform(
                "SELECT p.home.city AS city, p.home.zip + p.other.zip AS n, p.other.city IS NULL "
                "FROM PCOLLECTION p WHERE (p.home.city <> p.other.city) IS NOT FALSE"
            )
        )
        plain = found | beam.Map(tuple) | "All" >> beam.WindowInto(GlobalWindows())
        assert_that(plain, equal_to([("é", None, True), ("b", 12, False)]))


class Line(NamedTuple):
    sku: str
    n: int | None


class Order(NamedTuple):
    id: int
    lines: list[Line]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT id, r.sku, r.n + 1 FROM PCOLLECTION, UNNEST(lines) AS r", [("a", 3), ("b", None)]),
        (
            "SELECT o.id, r.sku, r.n FROM PCOLLECTION o LEFT JOIN UNNEST(o.lines) AS r ON TRUE",
            [("a", 2), ("b", None), (None, None)],
        ),
        (
            "SELECT q.id, x, y FROM (SELECT * FROM PCOLLECTION) q, UNNEST(q.lines) AS r(x, y)",
            [("a", 2), ("b", None)],
        ),
        (
            "SELECT id, r.x.sku, x.n FROM PCOLLECTION, UNNEST(lines) AS r(x)",
            [("a", 2), ("b", None)],
        ),
        (
            "SELECT o.id, l.s, l.n FROM PCOLLECTION o, LATERAL "
            "(SELECT UPPER(r.sku) AS s, r.n FROM UNNEST(o.lines) AS r WHERE r.n > 1) AS l",
            [("A", 2)],
        ),
    ],
)
def test_rows_of_an_array_are_unnested(query: str, expected: list[Any]) -> None:
    orders = [Order(1, [Line("a", 2), Line("b", None)]), Order(2, [])]
    with beam.Pipeline(runner=BatchRunner()) as pipeline:
        rows = pipeline | beam.Create(orders).with_output_types(Order)
        found = rows | beam.WindowInto(FixedWindows(1)) | SqlTransform(query)
        plain = found | beam.Map(lambda row: tuple(row)[1:])
        assert_that(plain | "All" >> beam.WindowInto(GlobalWindows()), equal_to(expected))

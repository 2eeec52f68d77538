"""Queries in windows and in streaming, in process."""

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

from sparkbeam import UnsupportedTransform

pytest.importorskip("sqlglot")

from sparkbeam.connectors.query_frames import queried, timed
from sparkbeam.replacements.calcite import parse
from sparkbeam.replacements.calcite_steps import steps_of
from sparkbeam.replacements.sql_lowered import Lowered
from sparkbeam.replacements.sql_rows import SqlRows


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


@pytest.mark.part(3)
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
        ("SELECT SUM(user) FROM PCOLLECTION", "SUM of what is no number"),
        ("SELECT user = id FROM PCOLLECTION", "user"),
        ("SELECT user / 2 FROM PCOLLECTION", "user"),
        ("SELECT CASE WHEN n > 1 THEN id ELSE user END FROM PCOLLECTION", "CASE"),
        ("SELECT id FROM PCOLLECTION UNION ALL SELECT user FROM PCOLLECTION", "UNION"),
        (
            "SELECT x FROM PCOLLECTION, UNNEST(ARRAY[1, 2]) WITH ORDINALITY AS t(x, i)",
            "UNNEST other than of one array",
        ),
        ("SELECT RAND(id) FROM PCOLLECTION", "RAND"),
        ("SELECT COVAR_POP(price, price) FROM PCOLLECTION", "COVAR_POP"),
        ("SELECT id, ROW_NUMBER() OVER (ORDER BY id) FROM PCOLLECTION", "ROW_NUMBER"),
        ("SELECT SUM(id) OVER (PARTITION BY user) FROM PCOLLECTION", "OVER"),
        ("SELECT id FROM PCOLLECTION WHERE n IN (SELECT id FROM PCOLLECTION)", "SELECT"),
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

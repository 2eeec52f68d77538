"""Queries in windows and in streaming, in process."""

import functools
import operator
from typing import Any

import apache_beam as beam
import pytest
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
    TimestampedValue,
)
from apache_beam.utils.timestamp import Timestamp
from in_process_batch import BatchRunner

pytest.importorskip("sqlglot")

from test_sql_results import CLICKS, Click

from sparkbeam_sql.calcite import parse
from sparkbeam_sql.calcite_steps import steps_of
from sparkbeam_sql.lowered import function
from sparkbeam_sql.steps import Union

TEN = "INTERVAL '10' SECOND"


def clicks(pipeline: beam.Pipeline, windows: Any = None, **named: Any) -> Any:
    rows = pipeline | beam.Create(CLICKS).with_output_types(Click)
    if windows is None:
        return rows
    stamped = rows | beam.Map(lambda row: TimestampedValue(row, row.at)).with_output_types(Click)
    return stamped | "In windows" >> beam.WindowInto(windows, **named)


def seen(rows: Any) -> Any:
    """Return the rows with the ends of their windows, in the global window."""

    def with_window(row: Any, window: Any = beam.DoFn.WindowParam) -> tuple[Any, ...]:
        return (int(window.end), *row)

    return rows | beam.Map(with_window) | "All" >> beam.WindowInto(GlobalWindows())


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


def stream(*batches: list[tuple[int, Click]]) -> TestStream:
    events = TestStream()
    for batch in batches:
        elements = [TimestampedValue(click, at) for at, click in batch]
        events = events.add_elements(elements).advance_watermark_to(max(at for at, _ in batch))
    return events.advance_watermark_to_infinity()


def test_a_stream_is_selected_and_aggregated_in_windows() -> None:
    with beam.Pipeline(runner=BatchRunner(), argv=["--streaming"]) as pipeline:
        events = stream([(5, CLICKS[0]), (15, CLICKS[1])], [(17, CLICKS[2]), (25, CLICKS[3])])
        rows = pipeline | events.with_output_types(Click)
        some = rows | "Some" >> SqlTransform("SELECT id, at FROM PCOLLECTION WHERE price > 2")
        counts = some | "Count" >> SqlTransform(
            f"SELECT COUNT(*) FROM PCOLLECTION GROUP BY TUMBLE(at, {TEN})"
        )
        assert_that(seen(counts), equal_to([(20, 2), (30, 1)]))


def test_triggers_and_lateness_of_the_input_hold() -> None:
    with beam.Pipeline(runner=BatchRunner(), argv=["--streaming"]) as pipeline:
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
    with beam.Pipeline(runner=BatchRunner(), argv=["--streaming"]) as pipeline:
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
    with beam.Pipeline(runner=BatchRunner(), argv=["--streaming"]) as pipeline:
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

"""Rows on which a query fails, as a second output of it."""

from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.sql import SqlTransform
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from sparkbeam import SparkRunner
from sparkbeam_sql import with_sql_dead_letters, with_sql_functions

pytest.importorskip("sqlglot")
pytestmark = pytest.mark.usefixtures("by_value")


class Order(NamedTuple):
    id: int
    user: str
    amount: str


ORDERS = [Order(1, "ada", "1"), Order(2, "bob", "x"), Order(3, "ada", "2")]
NUMBER = "CAST(amount AS INTEGER)"

CASES: list[tuple[str, list[tuple[Any, ...]], list[tuple[type, str]]]] = [
    (
        f"SELECT id, {NUMBER} AS n FROM PCOLLECTION WHERE 10 / (id - 1) > 0",
        [(3, 2)],
        [(ZeroDivisionError, "1"), (ValueError, "2")],
    ),
    (
        f"SELECT `user`, SUM({NUMBER}) AS n FROM PCOLLECTION GROUP BY `user`",
        [("ada", 3)],
        [(ValueError, "2")],
    ),
    (
        "SELECT a.id FROM PCOLLECTION a JOIN PCOLLECTION b ON CAST(a.amount AS INTEGER) = b.id",
        [(1,), (3,)],
        [(ValueError, "2")],
    ),
    ("SELECT checked(id) AS id FROM PCOLLECTION", [(1,), (3,)], [(KeyError, "2")]),
    ("SELECT 1 / (COUNT(*) - 3) AS n FROM PCOLLECTION", [], [(ZeroDivisionError, "0")]),
    (
        "SELECT id * 4611686018427387904 AS n FROM PCOLLECTION WHERE id <> 2",
        [(4611686018427387904,)],
        [(ValueError, "3")],
    ),
    ("SELECT 1 AS n", [(1,)], []),
    ("SELECT id FROM PCOLLECTION", [(1,), (2,), (3,)], []),
]


def checked(number: int) -> int:
    if number == 2:
        raise KeyError(number)
    return number


def queried(orders: Any, query: str) -> tuple[Any, Any]:
    """Return the rows of a query, and errors with the first field of the row that failed."""
    called = with_sql_functions(SqlTransform(query), checked=checked)
    rows, failed = orders | with_sql_dead_letters(called)
    return (
        rows | "Plain" >> beam.Map(tuple),
        failed | beam.MapTuple(lambda row, error: (error[0], str(row[0]))),
    )


@pytest.mark.part(5)
@pytest.mark.parametrize("in_windows", [False, True])
@pytest.mark.parametrize(("query", "expected", "errors"), CASES)
def test_rows_that_fail_are_put_out_and_the_others_are_not_lost(
    spark: Any, query: str, expected: Any, errors: Any, in_windows: bool
) -> None:
    if in_windows and "FROM" not in query:
        return
    with beam.Pipeline(SparkRunner(spark)) as pipeline:
        orders = pipeline | beam.Create(ORDERS)
        if in_windows:
            stamp = beam.Map(lambda order: TimestampedValue(order, order.id))
            orders = orders | stamp.with_output_types(Order) | beam.WindowInto(FixedWindows(10))
        rows, failed = queried(orders, query)
        assert_that(rows, equal_to(expected), label="rows")
        assert_that(failed, equal_to(errors), label="failed")


def test_a_stream_goes_on_behind_a_row_that_fails(spark: Any) -> None:
    events = TestStream().add_elements(ORDERS[:2]).add_elements(ORDERS[2:])
    with beam.Pipeline(SparkRunner(spark), argv=["--streaming"]) as pipeline:
        orders = pipeline | events.advance_watermark_to_infinity()
        orders = orders | beam.Map(lambda order: order).with_output_types(Order)
        rows, failed = queried(orders, f"SELECT {NUMBER} AS n FROM PCOLLECTION")
        assert_that(rows, equal_to([(1,), (2,)]), label="rows")
        assert_that(failed, equal_to([(ValueError, "2")]), label="failed")

"""Values that leave their types, in windows."""

from decimal import Decimal
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.sql import SqlTransform
from apache_beam.transforms.window import FixedWindows, GlobalWindows
from in_process_batch import BatchRunner

from sparkbeam import PipelineFailed

pytest.importorskip("sqlglot")

from test_sql_results import RELATIONS, Odd

ROWS = RELATIONS["odd"]


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

"""Functions in Python that queries call, in batch by Spark and in windows as steps of Beam."""

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, Optional

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.sql import SqlTransform
from apache_beam.transforms.window import FixedWindows, GlobalWindows
from apache_beam.utils.timestamp import Timestamp
from noting import values

from sparkbeam import (
    ConfigurationError,
    PipelineFailed,
    SparkRunner,
    as_dataframe,
)
from sparkbeam.io import ReadFromSpark, WriteToSpark
from sparkbeam.upstream.spark import is_classic
from sparkbeam_sql import with_sql_functions

pytest.importorskip("sqlglot")

from sql_engines import alike

pytestmark = pytest.mark.usefixtures("by_value")


class Item(NamedTuple):
    id: int
    n: int | None
    name: str | None
    price: Decimal
    at: Timestamp
    small: np.int32


ITEMS = [
    Item(1, None, "é𝄞", Decimal("1.5"), Timestamp(1.5), np.int32(7)),
    Item(-(2**63), 3, "", Decimal("-2.25"), Timestamp(-0.5), np.int32(-1)),
    Item(5, -4, None, Decimal(0), Timestamp(0), np.int32(0)),
]


def twice(n: int) -> int:
    return 2 * n


def label(name: Optional[str], n: Optional[int] = 5) -> Optional[str]:  # noqa: UP045
    return None if name == "" else f"{name}/{n}"


def half(x: float) -> float:
    return x / 2


def cents(price: Decimal) -> Decimal:
    return price * 100


def later(at: Timestamp) -> Timestamp:
    return at + 60


def has_ascii(name: str) -> bool:
    return name.isascii()


def coded(name: str) -> bytes:
    return name.encode()


def narrow(n: np.int32) -> np.int32:
    return n


class SumOfSquares(beam.CombineFn):
    def create_accumulator(self) -> int:
        return 0

    def add_input(self, total: int, n: int) -> int:
        return total + n * n

    def merge_accumulators(self, totals: Any) -> int:
        return sum(totals)

    def extract_output(self, total: int) -> int:
        return total


class Longest(beam.CombineFn):
    def create_accumulator(self) -> str:
        return ""

    def add_input(self, longest: str, text: str) -> str:
        return max(longest, text, key=len)

    def merge_accumulators(self, texts: Any) -> str:
        return max(texts, key=len)

    def extract_output(self, text: str) -> Optional[str]:  # noqa: UP045
        return text or None


FUNCTIONS: dict[str, Any] = {
    each.__name__: each for each in (twice, label, half, cents, later, has_ascii, coded, narrow)
} | {"squares": SumOfSquares(), "longest": Longest()}

QUERIES = [
    "SELECT id, twice(n) AS a, TWICE(Twice(small)) AS b, twice(n) / 3 AS c FROM PCOLLECTION",
    "SELECT label(name) AS a, label(name, n) AS b, label(NULL, small) AS c FROM PCOLLECTION",
    "SELECT half(id) AS a, half(n) AS b, half(price) AS c, "
    "CAST(cents(price) AS DOUBLE) AS d FROM PCOLLECTION",
    "SELECT later(at) AS a, has_ascii(name) b, coded(name) AS c, narrow(small) d FROM PCOLLECTION",
    "SELECT id FROM PCOLLECTION WHERE twice(n) > 0 OR has_ascii(name)",
    "SELECT squares(n) AS a, longest(name) AS b, squares(twice(small)) + 1 AS c FROM PCOLLECTION",
    "SELECT n > 0, squares(n) AS a, COUNT(*) AS b FROM PCOLLECTION GROUP BY n > 0",
    "SELECT squares(n) FILTER (WHERE n > 0) AS a FROM PCOLLECTION HAVING squares(n) > 9",
    "SELECT a.id, b.id FROM PCOLLECTION a JOIN PCOLLECTION b ON twice(a.small) = twice(b.small)",
    "SELECT twice(small) AS a, COUNT(*) AS b FROM PCOLLECTION GROUP BY twice(small)",
]


def rows(pipeline: beam.Pipeline) -> Any:
    return pipeline | beam.Create(ITEMS).with_output_types(Item)


@pytest.mark.part(4)
@pytest.mark.parametrize("query", QUERIES)
def test_functions_do_the_same_in_batch_and_in_windows(spark: Any, query: str) -> None:
    result = rows(beam.Pipeline(runner=SparkRunner(spark))) | with_sql_functions(
        SqlTransform(query), **FUNCTIONS
    )

    def windowed(pipeline: beam.Pipeline) -> Any:
        found = rows(pipeline) | beam.WindowInto(FixedWindows(1 << 40))
        found |= with_sql_functions(SqlTransform(query), **FUNCTIONS)
        return found | "All" >> beam.WindowInto(GlobalWindows())

    assert alike(values(windowed)) == alike(as_dataframe(result).collect()) != []


def test_values_are_those_of_the_functions(spark: Any) -> None:
    query = "SELECT twice(n) AS a, label(name) AS b, later(at) AS c FROM PCOLLECTION WHERE id = 1"
    with beam.Pipeline(runner=SparkRunner(spark)) as pipeline:
        found = rows(pipeline) | with_sql_functions(SqlTransform(query), **FUNCTIONS)
        assert_that(found | beam.Map(tuple), equal_to([(None, "é𝄞/5", Timestamp(61.5))]))


def test_a_function_is_one_of_its_query_alone(spark: Any) -> None:
    def thrice(n: int) -> int:
        return 3 * n

    query = SqlTransform("SELECT f(small) AS n FROM PCOLLECTION WHERE id = 1")
    with beam.Pipeline(runner=SparkRunner(spark)) as pipeline:
        given = rows(pipeline)
        found = [
            given | "Twice" >> with_sql_functions(query, f=twice),
            given | "Thrice" >> with_sql_functions(query, F=thrice),
        ]
        assert_that(found | beam.Flatten() | beam.Map(tuple), equal_to([(14,), (21,)]))
    if is_classic(spark):
        names = [row[0] for row in spark.sql("SHOW USER FUNCTIONS").collect()]
        assert not [name for name in names if "sparkbeam" in name]
    with pytest.raises(ConfigurationError, match=r"'Unknown': .*(?i:routine|function)"):
        _ = given | "Unknown" >> query


def wrong(n: int) -> int:
    return n / 2  # type: ignore[return-value]


def huge(n: int) -> int:
    return 2**63 + n


def failing(n: int) -> int:
    raise KeyError("nothing")


@pytest.mark.part(2)
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (wrong, "f: TypeError: it returned 3.5, which is not of type int"),
        (
            huge,
            "f: OverflowError: it returned 9223372036854775815, which is out of range for bigint",
        ),
        (failing, "f: KeyError: 'nothing'"),
    ],
)
def test_a_function_that_fails_ends_the_pipeline(
    spark: Any, function: Callable[[int], int], message: str
) -> None:
    pipeline = beam.Pipeline(runner=SparkRunner(spark))
    query = SqlTransform("SELECT f(small) AS n FROM PCOLLECTION WHERE id = 1")
    found = rows(pipeline) | "Call" >> with_sql_functions(query, f=function)
    _ = found | beam.Map(str)
    with pytest.raises(PipelineFailed, match=f"^Step 'Call' failed: .*{message}"):
        pipeline.run().wait_until_finish()


def loud(name: str) -> str:
    return name.upper()


OVER_RUNS = """
SELECT loud(names.name) AS name, longest(TRIM(word)) AS word, COUNT(*) AS n
FROM (SELECT user, word, at FROM PCOLLECTION, UNNEST(words) AS w(word)) AS said
JOIN names ON said.user = names.id
GROUP BY loud(names.name), TUMBLE(at, INTERVAL '10' SECOND)
"""
RUNS = [
    [(1, ["a", " bcd "], 1), (2, [], 2), (2, ["e"], 3), (3, ["f"], 4)],
    [(1, ["g"], 9), (2, ["h"], 12), (1, ["i"], 35)],
]


@pytest.mark.long("two runs of a stream; queries in streams have shorter ones in process")
def test_a_query_goes_on_where_its_checkpoint_is(spark: Any, tmp_path: Path) -> None:
    place = [f"--checkpoint_location={tmp_path}/checkpoint", "--trigger=available-now"]
    schema = "user bigint, words array<string>, at timestamp"
    (tmp_path / "in").mkdir()
    for number, said in enumerate(RUNS):
        rows = [{"user": u, "words": w, "at": f"2030-01-31T09:00:{at:02}Z"} for u, w, at in said]
        (tmp_path / "in" / f"{number}.json").write_text("\n".join(map(json.dumps, rows)))
        with beam.Pipeline(SparkRunner(spark), PipelineOptions(["--streaming", *place])) as p:
            source = ReadFromSpark("json", {"path": tmp_path / "in"}, schema, timestamp_column="at")
            names = p | beam.Create([beam.Row(id=1, name="Ada"), beam.Row(id=2, name="Bob")])
            (
                {"PCOLLECTION": p | source, "names": names}
                | with_sql_functions(SqlTransform(OVER_RUNS), loud=loud, longest=Longest())
                | beam.Map(lambda row: {"name": row.name, "word": row.word, "n": row.n})
                | WriteToSpark(
                    "json", {"path": f"{tmp_path}/out"}, "name string, word string, n bigint"
                )
            )
    found = map(tuple, spark.read.json(f"{tmp_path}/out").select("name", "word", "n").collect())
    assert sorted(found) == [("ADA", "bcd", 3), ("BOB", "e", 1), ("BOB", "h", 1)]

"""Which columns Spark reads: those that some step looks at."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows
from pyspark.sql import types as st

from sparkbeam import SparkRunner
from sparkbeam.explain import describe
from sparkbeam.io import ReadFromSpark
from sparkbeam.options import SparkBeamOptions
from sparkbeam.plan.model import Plan
from sparkbeam.plan.sparkio import ReadSpec

INNER = st.StructType([st.StructField("x", st.DoubleType()), st.StructField("y", st.LongType())])
SCHEMA = st.StructType(
    [
        st.StructField("id", st.LongType()),
        st.StructField("name", st.StringType()),
        st.StructField("at", st.TimestampType()),
        st.StructField("inner", INNER),
        st.StructField("set", st.LongType(), False),
    ]
)


def planned(
    build: Callable[[Any], Any], *options: str, format: str = "parquet", **read: Any
) -> Plan:
    runner = SparkRunner()
    p = beam.Pipeline(runner, argv=["--runner=sparkbeam.SparkRunner", *options])
    build(p | ReadFromSpark(format, {}, SCHEMA, timestamp_column="at", **read))
    return runner._plan(p, p.options.view_as(SparkBeamOptions))


def read(plan: Plan) -> list[str]:
    (source,) = plan.sources
    return list(ReadSpec.unpack(source.payload).read)


def two_steps(rows: Any) -> Any:
    few = rows | beam.Filter(lambda row: row.id > 3)
    return few | beam.WindowInto(FixedWindows(3)) | beam.Map(lambda row: (row.name, 1))


def two_readers(rows: Any) -> None:
    _ = rows | "names" >> beam.Map(lambda row: row.name)
    _ = rows | "xs" >> beam.Map(lambda row: row.inner.x if row.id else 0.0)


ALL = ["id", "name", "at", "inner", "set"]


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda rows: rows | beam.Map(lambda row: row.id), ["id", "set"]),
        (lambda rows: rows | beam.Map(lambda row: (row.at, row.set)), ["at", "set"]),
        (lambda rows: rows | beam.Map(lambda row: row[1]), ["name", "set"]),
        (lambda rows: rows | beam.Map(lambda row: 1), ["set"]),
        (two_steps, ["id", "name", "set"]),
        (two_readers, ["id", "name", "inner", "set"]),
        (lambda rows: rows | beam.Map(lambda row: row), ["set"]),
        (
            lambda rows: (
                rows | beam.Map(lambda row: row) | beam.Reshuffle() | "p" >> beam.Map(print)
            ),
            ALL,
        ),
        (lambda rows: rows | beam.Map(lambda row: (row.id, row)), ALL),
        (lambda rows: rows | beam.Filter(lambda row: row.id > 3), ["id", "set"]),
        (lambda rows: rows | beam.Map(lambda row: re.match("a", row.name)), ALL),
        (lambda rows: rows | beam.Map(lambda row: row == (1, "a", None, None, 2)), ALL),
        (lambda rows: rows | beam.Map(lambda row: row if row.id else None), ALL),
        (lambda rows: rows | beam.Map(lambda row, side: row.id, 3), ALL),
        (lambda rows: rows | beam.Reshuffle() | beam.Map(lambda row: row.id), ALL),
    ],
)
@pytest.mark.parametrize("options", [[], ["--streaming"]])
def test_columns_that_no_step_looks_at_are_not_read(
    build: Callable[[Any], Any], expected: list[str], options: list[str]
) -> None:
    assert read(planned(build, *options)) == expected


def test_all_columns_are_read_where_functions_are_called() -> None:
    assert read(planned(lambda rows: rows | beam.Map(lambda row: row.id), "--columns=off")) == ALL


def test_all_columns_are_read_where_they_may_make_a_row_malformed() -> None:
    plan = planned(lambda rows: rows | beam.Map(lambda row: row.id), format="csv")
    assert read(plan) == ALL


def test_explain_tells_how_many_columns_are_read() -> None:
    plan = planned(lambda rows: rows | "ids" >> beam.Map(lambda row: row.id))
    assert "(2 of 5 columns)" in describe.stages(plan)


def test_a_block_that_goes_element_by_element_has_what_its_function_looks_at(
    spark: Any, tmp_path: Path
) -> None:
    path = str(tmp_path / "rows")
    rows = [(1, "a", 2**62), (2, "b", 5), (3, None, None)]
    spark.createDataFrame(rows, "id long, name string, number long").write.parquet(path)
    with beam.Pipeline(SparkRunner(spark)) as p:
        numbers = (
            p
            | ReadFromSpark("parquet", {"path": path})
            | beam.Filter(lambda row: row.number is not None)
            | beam.Map(lambda row: (row.id, row.number * 4))
        )
        assert_that(numbers, equal_to([(1, 2**64), (2, 20)]))

"""Beam's SqlTransform over Spark SQL, in batch."""

from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.sql import SqlTransform
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.schemas import JdbcDateType, LogicalType
from apache_beam.utils.timestamp import Timestamp

from sparkbeam import (
    ConfigurationError,
    PipelineFailed,
    SparkRunner,
    UnsupportedTransform,
    as_dataframe,
)
from sparkbeam.io import FromDataFrame

pytest.importorskip("sqlglot")


class Everything(NamedTuple):
    id: int
    text: str | None
    time: Timestamp
    price: Decimal
    day: date
    raw: bytes
    items: list[int]
    counts: dict[str, int]
    any: complex


ROW = Everything(
    1, None, Timestamp(1.5), Decimal("1.25"), date(1969, 1, 2), b"\0", [1], {"a": 2}, 1j
)


@pytest.mark.parametrize("with_jdbc", [False, True])
def test_values_of_all_types_pass_through_queries(
    spark: Any, monkeypatch: pytest.MonkeyPatch, with_jdbc: bool
) -> None:
    registry = LogicalType._known_logical_types.copy()
    monkeypatch.setattr(LogicalType, "_known_logical_types", registry)
    if with_jdbc:  # As Beam's own transform does.
        LogicalType.register_logical_type(JdbcDateType)
    with beam.Pipeline(runner=SparkRunner(spark)) as pipeline:
        rows = pipeline | beam.Create([ROW]).with_output_types(Everything)
        once = rows | "Once" >> SqlTransform("SELECT * FROM PCOLLECTION")
        assert once.element_type.get_type_for("day") is date
        twice = once | "Twice" >> SqlTransform("SELECT * FROM PCOLLECTION WHERE id = 1")
        assert_that(twice | beam.Map(tuple), equal_to([tuple(ROW)]))
        attributes = twice | "Attributes" >> beam.Map(lambda row: (row.id, row.any, row.items))
        assert_that(attributes, equal_to([(1, 1j, [1])]), label="attributes")


def test_queries_of_queries_and_of_dataframes_stay_with_spark(spark: Any) -> None:
    runner = SparkRunner(spark)
    pipeline = beam.Pipeline(runner=runner)
    frame = spark.sql("SELECT id, timestamp_seconds(id) AS at FROM range(10)")
    result = (
        pipeline
        | FromDataFrame(frame)
        | "First" >> SqlTransform("SELECT id, at FROM PCOLLECTION WHERE id > 5")
        | "Second" >> SqlTransform("SELECT SUM(id) AS s, MAX(at) AS t FROM PCOLLECTION")
    )
    explained = runner.explain(pipeline)
    assert len(explained.stages.splitlines()) < 10
    found = as_dataframe(result).collect()
    assert [tuple(map(str, row)) for row in found] == [("30", "1970-01-01 00:00:09")]


def test_spark_gets_the_columns_that_a_query_reads(spark: Any) -> None:
    runner = SparkRunner(spark)
    with beam.Pipeline(runner=runner) as pipeline:
        rows = pipeline | beam.Create(
            [beam.Row(id=1, unread=2**70, text="a"), beam.Row(id=1, unread=1.5, text="b")]
        )
        counts = rows | "Count" >> SqlTransform("SELECT COUNT(*) AS n FROM PCOLLECTION")
        sums = rows | "Sum" >> SqlTransform("SELECT text, SUM(id) AS s FROM PCOLLECTION GROUP BY 1")
        assert_that(counts | "Number" >> beam.Map(tuple), equal_to([(2,)]))
        assert_that(sums | "Pairs" >> beam.Map(tuple), equal_to([("a", 1), ("b", 1)]), label="sums")
    assert "unread" not in str(runner.explain(pipeline))


def test_timestamps_of_elements_are_kept(spark: Any) -> None:
    with beam.Pipeline(runner=SparkRunner(spark)) as pipeline:
        counts = (
            pipeline
            | beam.Create([1, 11, 12])
            | beam.Map(lambda at: TimestampedValue(beam.Row(at=at), at)).with_output_types(
                RowTypeConstraint.from_fields([("at", int)])
            )
            | SqlTransform("SELECT at FROM PCOLLECTION")
            | beam.WindowInto(FixedWindows(10))
            | beam.combiners.Count.Globally().without_defaults()
        )
        assert_that(counts, equal_to([1, 2]))


def test_tables_have_the_names_of_the_inputs(spark: Any) -> None:
    with beam.Pipeline(runner=SparkRunner(spark)) as pipeline:
        one = pipeline | "One" >> beam.Create([beam.Row(id=1, v="a")])
        other = pipeline | "Other" >> beam.Create([beam.Row(id=1, w="b")])
        query = "SELECT v || w AS x FROM {} l JOIN {} r ON l.id = r.id"
        found = [
            {"l ef{t": one, "right": other}
            | "Dict" >> SqlTransform(query.format("`l ef{t`", "right")),
            (one, other) | "Tuple" >> SqlTransform(query.format("`0`", "`1`")),
            {"only": one} | "Lone" >> SqlTransform("SELECT v || 'b' AS x FROM PCOLLECTION"),
        ]
        assert_that(found | beam.Flatten(), equal_to([("ab",)] * 3))


def test_names_may_differ_only_in_their_case_or_be_ours(spark: Any) -> None:
    with beam.Pipeline(runner=SparkRunner(spark)) as pipeline:
        row = beam.Row(id=1, ID=2, sparkbeam_time=3, c0=4, t0=5)
        one = pipeline | "One" >> beam.Create([row])
        other = pipeline | "Other" >> beam.Create([beam.Row(Id=6)])
        rows = {"t": one, "T": other} | SqlTransform(
            "SELECT t.ID, t.id, sparkbeam_time, c0, t0, T.Id FROM t, T"
        )
        assert_that(rows, equal_to([(2, 1, 3, 4, 5, 6)]))


def test_a_function_of_the_session_is_called(spark: Any) -> None:
    spark.udf.register("twice", lambda number: 2 * number, "bigint")
    with beam.Pipeline(runner=SparkRunner(spark)) as pipeline:
        rows = (
            pipeline
            | beam.Create([beam.Row(id=4)])
            | SqlTransform("SELECT twice(id) x FROM PCOLLECTION")
        )
        assert_that(rows, equal_to([(8,)]))


def test_an_empty_input_has_no_rows(spark: Any) -> None:
    with beam.Pipeline(runner=SparkRunner(spark)) as pipeline:
        rows = (
            pipeline
            | beam.Create([beam.Row(id=4)])
            | beam.Filter(lambda row: row.id > 4)
            | SqlTransform("SELECT id, COUNT(*) FROM PCOLLECTION GROUP BY id")
        )
        assert_that(rows, equal_to([]))


@pytest.mark.parametrize(
    ("transform", "error", "message"),
    [
        (SqlTransform("SELECT id FROM t"), ConfigurationError, "'Query': There is no table 't'"),
        (SqlTransform("SELECT nosuch(id) FROM PCOLLECTION"), ConfigurationError, "(?i)nosuch"),
        (SqlTransform("DROP TABLE t"), UnsupportedTransform, "'Query' cannot run.*DROP"),
    ],
)
def test_a_wrong_query_is_an_error_with_the_label_and_is_not_logged_beside(
    spark: Any,
    capfd: pytest.CaptureFixture[str],
    transform: Any,
    error: type[Exception],
    message: str,
) -> None:
    rows = beam.Pipeline(runner=SparkRunner(spark)) | beam.Create([beam.Row(id=1)])
    with pytest.raises(error, match=message):
        _ = rows | "Query" >> transform
    assert "QueryContextLogger" not in capfd.readouterr().err


def test_an_error_while_a_query_runs_names_it_and_is_not_logged_beside(
    spark: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    pipeline = beam.Pipeline(runner=SparkRunner(spark))
    texts = pipeline | beam.Create([beam.Row(text="seven")])
    for label, query in (("Length", "CHAR_LENGTH(text)"), ("Number", "CAST(text AS BIGINT)")):
        rows = texts | label >> SqlTransform(f"SELECT MAX({query}) AS n FROM PCOLLECTION")
        _ = rows | f"Read {label}" >> beam.Map(str)
    with pytest.raises(PipelineFailed, match=r"^Query 'Number/Query' failed: .*'seven'") as caught:
        pipeline.run().wait_until_finish()
    assert caught.value.label == "Number/Query"
    assert "QueryContextLogger" not in capfd.readouterr().err


def queries_of(pipeline: beam.Pipeline) -> list[str]:
    """The labels of the queries that Spark runs."""
    transforms = pipeline.to_runner_api().components.transforms.values()
    return [one.unique_name for one in transforms if one.unique_name.endswith("/Query")]


def test_a_query_of_single_rows_runs_over_the_columns_of_the_step_before(spark: Any) -> None:
    with beam.Pipeline(runner=SparkRunner(spark)) as pipeline:
        rows = pipeline | beam.Create([beam.Row(id=1, name="a"), beam.Row(id=2, name="b")])
        doubled = rows | "Twice" >> SqlTransform(
            "SELECT id * 2 AS n, UPPER(name) AS name FROM PCOLLECTION"
        )
        few = doubled | "Few" >> SqlTransform("SELECT name FROM PCOLLECTION WHERE n > 2")
        assert_that(few | beam.Map(lambda row: row.name), equal_to(["B"]))
    assert queries_of(pipeline) == []


def test_a_query_of_single_rows_of_spark_is_one_of_spark(spark: Any) -> None:
    with beam.Pipeline(runner=SparkRunner(spark)) as pipeline:
        rows = pipeline | FromDataFrame(spark.range(5).selectExpr("id", "id % 2 AS odd"))
        odd = rows | "Odd" >> SqlTransform("SELECT id FROM PCOLLECTION WHERE odd = 1")
        even = odd | "Even" >> SqlTransform("SELECT id + 1 AS id FROM PCOLLECTION")
        assert_that(even | beam.Map(lambda row: row.id), equal_to([2, 4]))
    assert sorted(queries_of(pipeline)) == ["Even/Query", "Odd/Query"]

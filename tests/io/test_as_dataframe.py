"""Beam in the middle of a Spark program: from a DataFrame, and to one."""

import random
from datetime import UTC
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
import streams
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from streams import pipeline_on

from sparkbeam import PipelineFailed, as_dataframe
from sparkbeam.io import FromDataFrame


def noting(folder: Path) -> Any:
    """Return a step that leaves a file for each call."""

    def note(number: int) -> int:
        (folder / f"{random.getrandbits(64):x}").touch()
        return number

    return beam.Map(note)


def tuples(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()), key=repr)


class TestAsDataFrame:
    def test_rows_become_columns(self, spark: Any) -> None:
        rows = (
            pipeline_on(spark) | beam.Create([1, 2]) | beam.Map(lambda n: beam.Row(n=n, t=str(n)))
        )
        frame = as_dataframe(rows)
        assert frame.dtypes == [("n", "bigint"), ("t", "string")]
        assert tuples(frame) == [(1, "1"), (2, "2")]

    def test_named_tuples_with_lists_dictionaries_and_rows(self, spark: Any) -> None:
        words = [
            streams.Word("a", 1, None, ["x", "y"], {"p": 1}, streams.Thing(1, None)),
            streams.Word("b", 2, 0.5, [], {}, streams.Thing(2, "two")),
        ]
        made = pipeline_on(spark) | beam.Create(words).with_output_types(streams.Word)
        frame = as_dataframe(made)
        kinds = dict(frame.dtypes)
        assert kinds["parts"] == "array<string>"
        assert kinds["places"] == "map<string,bigint>"
        assert kinds["inner"] == "struct<id:bigint,name:string>"
        first, second = frame.orderBy("text").collect()
        assert (first.share, first.parts, first.places) == (None, ["x", "y"], {"p": 1})
        assert (second.share, tuple(second.inner)) == (0.5, (2, "two"))

    def test_dictionaries_with_a_schema(self, spark: Any) -> None:
        made = pipeline_on(spark) | beam.Create([{"a": 1, "b": "x"}, {"a": 2, "c": None}])
        assert tuples(as_dataframe(made, "a int, b string")) == [(1, "x"), (2, None)]

    @pytest.mark.parametrize(
        ("values", "kind"),
        [
            ([1, -(1 << 63)], "bigint"),
            (["", "ü\x00"], "string"),
            ([0.5, float("inf")], "double"),
            ([True, False], "boolean"),
            ([b"", b"\xff"], "binary"),
            ([[1], [2, 3]], "array<bigint>"),
        ],
    )
    def test_plain_values_are_in_one_column(self, spark: Any, values: list[Any], kind: str) -> None:
        frame = as_dataframe(pipeline_on(spark) | beam.Create(values))
        assert frame.dtypes == [("value", kind)]
        assert sorted(row.value for row in frame.collect()) == sorted(values)

    def test_none_nan_and_times(self, spark: Any) -> None:
        pipeline = pipeline_on(spark)
        numbers = pipeline | "Numbers" >> beam.Create([1, None]).with_output_types(int | None)
        assert tuples(as_dataframe(numbers)) == [(1,), (None,)]
        (row,) = as_dataframe(pipeline | beam.Create([float("nan")])).collect()
        assert row.value != row.value
        times = pipeline | "Times" >> beam.Create([Timestamp(5)])
        (row,) = as_dataframe(times).select(sf.unix_micros("value")).collect()
        assert row[0] == 5_000_000

    def test_an_empty_one_has_its_columns(self, spark: Any) -> None:
        frame = as_dataframe(pipeline_on(spark) | beam.Create([]).with_output_types(streams.Thing))
        assert frame.columns == ["id", "name"]
        assert frame.collect() == []

    def test_timestamps_are_a_column_if_asked_for(self, spark: Any) -> None:
        values = pipeline_on(spark) | beam.Create([1, 2])
        stamped = values | beam.Map(
            lambda n: n if n == 2 else TimestampedValue(n, 1_700_000_000)
        ).with_output_types(int)
        frame = as_dataframe(stamped, timestamps="at")
        assert frame.dtypes == [("value", "bigint"), ("at", "timestamp")]
        micros = frame.select("value", sf.unix_micros("at"))
        assert tuples(micros) == [(1, 1_700_000_000_000_000), (2, None)]
        things = values | beam.Map(lambda n: beam.Row(id=n))
        assert as_dataframe(things, timestamps="at").columns == ["id", "at"]

    def test_it_joins_and_groups_with_sparks_own(self, spark: Any) -> None:
        names = spark.createDataFrame([(0, "even"), (1, "odd")], "parity int, name string")
        counts = (
            pipeline_on(spark)
            | beam.Create(range(10))
            | beam.Map(lambda n: (n % 2, n))
            | beam.GroupByKey()
            | beam.Map(lambda kv: beam.Row(parity=int(kv[0]), total=int(sum(kv[1]))))
        )
        joined = as_dataframe(counts).join(names, "parity").select("name", "total")
        assert tuples(joined) == [("even", 20), ("odd", 25)]
        assert joined.agg(sf.sum("total")).collect()[0][0] == 45

    def test_it_runs_anew_each_time_that_spark_asks(self, spark: Any, tmp_path: Path) -> None:
        frame = as_dataframe(pipeline_on(spark) | beam.Create([1, 2, 3]) | noting(tmp_path))
        assert list(tmp_path.iterdir()) == []
        assert frame.count() == 3
        assert frame.count() == 3
        assert len(list(tmp_path.iterdir())) == 6
        cached = frame.cache()
        assert cached.count() == cached.count() == 3
        assert len(list(tmp_path.iterdir())) == 9
        cached.unpersist()

    def test_two_readers_of_a_step_see_the_same_elements(self, spark: Any) -> None:
        drawn = (
            pipeline_on(spark) | beam.Create(range(100)) | beam.Map(lambda n: (n, random.random()))
        )
        both = (drawn | "Again" >> beam.Map(lambda pair: pair), drawn) | beam.CoGroupByKey()
        same = both | beam.Map(
            lambda kv: len({x for part in kv[1] for x in part})
        ).with_output_types(int)
        frame = as_dataframe(same)
        assert {row.value for row in frame.collect()} == {1}
        spark.catalog.clearCache()

    def test_nothing_else_of_the_pipeline_runs_and_it_stays_as_it_was(
        self, spark: Any, tmp_path: Path
    ) -> None:
        pipeline = pipeline_on(spark)
        numbers = pipeline | beam.Create([1, 2])
        _ = numbers | beam.io.WriteToText(str(tmp_path / "out"))
        before = pipeline.to_runner_api()
        frame, again = as_dataframe(numbers), as_dataframe(numbers)
        assert len(pipeline.to_runner_api().components.transforms) == len(
            before.components.transforms
        )
        assert tuples(frame.union(again)) == [(1,), (1,), (2,), (2,)]
        assert list(tmp_path.iterdir()) == []
        pipeline.run().wait_until_finish()
        assert list(tmp_path.iterdir()) != []

    def test_side_inputs_are_collected_at_once(self, spark: Any, tmp_path: Path) -> None:
        pipeline = pipeline_on(spark)
        side = pipeline | "Side" >> beam.Create([10, 20]) | noting(tmp_path)
        large = (
            pipeline | "Large" >> beam.Create([b"x" * 1000]) | beam.FlatMap(lambda x: [x] * 9000)
        )
        added = (
            pipeline
            | beam.Create([1, 2])
            | beam.Map(
                lambda n, tens, many: n + sum(tens) + len(list(many)),
                beam.pvalue.AsList(side),
                beam.pvalue.AsIter(large),
            ).with_output_types(int)
        )
        frame = as_dataframe(added)
        assert len(list(tmp_path.iterdir())) == 2
        assert tuples(frame) == tuples(frame) == [(9031,), (9032,)]
        assert len(list(tmp_path.iterdir())) == 2

    def test_windows_are_dropped(self, spark: Any) -> None:
        seconds = pipeline_on(spark) | beam.Create([1, 2, 61])
        timed = seconds | beam.Map(lambda second: TimestampedValue(("all", 1), second))
        counted = timed | beam.WindowInto(FixedWindows(60)) | beam.CombinePerKey(sum)
        counts = counted | beam.Map(lambda kv: kv[1]).with_output_types(int)
        frame = as_dataframe(counts, timestamps="until")
        found = [(row.value, row.until.replace(tzinfo=UTC).second) for row in frame.collect()]
        assert sorted(found) == [(1, 59), (2, 59)]

    def test_a_stream_beside_it_does_not_matter(self, spark: Any) -> None:
        pipeline = pipeline_on(spark)
        _ = pipeline | TestStream().add_elements([1])
        assert tuples(as_dataframe(pipeline | beam.Create([1]))) == [(1,)]

    def test_several_pcollections_flattened(self, spark: Any) -> None:
        pipeline = pipeline_on(spark)
        parts = [pipeline | f"Part {n}" >> beam.Create([n]) for n in range(3)]
        both = (*parts, parts[0]) | beam.Flatten()
        assert tuples(as_dataframe(both)) == [(0,), (0,), (1,), (2,)]
        spark.catalog.clearCache()


def divided(pipeline: beam.Pipeline, function: Any) -> Any:
    zero = pipeline | "Zero" >> beam.Create([0])
    return zero | "Divide" >> beam.Map(function).with_output_types(int)


class TestFailures:
    def test_of_user_code_are_told_with_the_step(self, spark: Any) -> None:
        frame = as_dataframe(divided(pipeline_on(spark), lambda n: 1 // n))
        with pytest.raises(PySparkException) as caught:
            frame.collect()
        text = str(caught.value)
        assert "Step 'Divide' failed: ZeroDivisionError: integer" in text
        assert "lambda n: 1 // n" in text
        assert "sparkbeam-failure" not in text

    def test_of_side_inputs_are_told_at_once(self, spark: Any) -> None:
        pipeline = pipeline_on(spark)
        side = beam.pvalue.AsSingleton(divided(pipeline, lambda n: 1 // n))
        ones = pipeline | beam.Create([1])
        added = ones | beam.Map(lambda n, s: n + s, side).with_output_types(int)
        text = "Step 'Divide' failed: ZeroDivisionError"
        with pytest.raises(PipelineFailed, match=text) as caught:
            as_dataframe(added)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)

    @pytest.mark.parametrize("value", [1 << 40, "x", 1.5])
    def test_of_values_that_are_not_of_their_type(self, spark: Any, value: Any) -> None:
        made = pipeline_on(spark) | beam.Create([0]) | beam.Map(lambda _: {"a": value})
        text = "Step 'as_dataframe/Pack' failed: ValueError: the column 'a' of the schema"
        with pytest.raises(PySparkException, match=text):
            as_dataframe(made, "a int").collect()

    def test_secrets_are_not_told(self, spark: Any) -> None:
        def fail(element: int) -> int:
            raise ValueError("Tr0ub4dor")

        pipeline = pipeline_on(spark, "--spark_conf=spark.my.password=Tr0ub4dor")
        with pytest.raises(PySparkException, match=r"ValueError: \*\*\*"):
            as_dataframe(divided(pipeline, fail)).collect()


class TestFromDataFrame:
    def test_beam_stands_in_the_middle_of_a_spark_program(self, spark: Any) -> None:
        frame = spark.range(1000).where("id % 7 = 0")
        squares = (
            pipeline_on(spark)
            | FromDataFrame(frame)
            | beam.Map(lambda row: (row.id % 2, row.id**2))
            | beam.CombinePerKey(sum)
            | beam.Map(lambda kv: beam.Row(parity=int(kv[0]), squares=int(kv[1])))
        )
        found = as_dataframe(squares).orderBy("parity").collect()
        expected = [sum(n * n for n in range(0, 1000, 7) if n % 2 == parity) for parity in (0, 1)]
        assert [row.squares for row in found] == expected

    def test_one_frame_may_be_read_twice(self, spark: Any) -> None:
        frame = spark.range(3)
        pipeline = pipeline_on(spark)
        both = (
            pipeline | "One" >> FromDataFrame(frame),
            pipeline | "Two" >> FromDataFrame(frame),
        ) | beam.Flatten()
        ids = both | beam.Map(lambda row: row.id).with_output_types(int)
        assert sorted(row.value for row in as_dataframe(ids).collect()) == [0, 0, 1, 1, 2, 2]

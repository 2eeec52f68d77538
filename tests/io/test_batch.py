"""Spark's sources and sinks in batch."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
import streams
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.utils.timestamp import Timestamp
from streams import pipeline_on

from sparkbeam import ConfigurationError, PipelineFailed, SparkRunner
from sparkbeam.connectors.delivery import Delivery
from sparkbeam.connectors.write_targets import WriteTarget
from sparkbeam.io import Foreach, ForeachBatch, ReadFromSpark, Writer, WriteToSpark

SCHEMA = "id bigint, at timestamp, parts array<struct<name: string>>, price decimal(10, 2)"
ROWS = [
    {"id": 1, "at": "2024-01-01T00:00:01Z", "parts": [{"name": "a"}], "price": 1.5},
    {"id": 2, "at": "2024-01-01T00:00:02Z", "parts": None, "price": None},
]
SECRET = "correct-horse"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    streams.write_json(tmp_path / "in" / "a.json", ROWS)
    return tmp_path / "in"


def test_rows_have_the_columns_as_attributes(spark: Any, source: Path) -> None:
    with pipeline_on(spark) as pipeline:
        rows = pipeline | ReadFromSpark("json", {"path": source}, SCHEMA, timestamp_column="at")
        found = rows | beam.Map(
            lambda row, time=beam.DoFn.TimestampParam: (
                row.id,
                row.at == time,
                time.micros,
                [part.name for part in row.parts or []],
                row.price,
            )
        )
        first = Timestamp.from_rfc3339(str(ROWS[0]["at"])).micros
        assert_that(
            found,
            equal_to(
                [(1, True, first, ["a"], Decimal("1.50")), (2, True, first + 1_000_000, [], None)]
            ),
        )


def test_the_source_tells_its_schema_and_some_columns_are_read(spark: Any, source: Path) -> None:
    with pipeline_on(spark) as pipeline:
        rows = pipeline | ReadFromSpark("json", {"path": source}, columns=["id"])
        assert_that(rows | beam.Map(tuple), equal_to([(1,), (2,)]))


def test_rows_are_written_with_the_schema_of_their_type(spark: Any, tmp_path: Path) -> None:
    things = [streams.Thing(1, "one"), streams.Thing(2, None)]
    with pipeline_on(spark) as pipeline:
        _ = (
            pipeline
            | beam.Create(things).with_output_types(streams.Thing)
            | WriteToSpark("parquet", {"path": tmp_path / "out"})
        )
    found = spark.read.parquet(str(tmp_path / "out"))
    assert found.dtypes == [("id", "bigint"), ("name", "string")]
    assert sorted(map(tuple, found.collect())) == things


def test_columns_are_written_as_their_elements_are(spark: Any, tmp_path: Path) -> None:
    rows = [(number, f"n{number}", number / 4) for number in range(12_000)]
    path = tmp_path / "in"
    spark.createDataFrame(rows, "id long, name string, share double").write.parquet(str(path))
    for columns in ("auto", "off"):
        p = beam.Pipeline(SparkRunner(session=spark), argv=[f"--columns={columns}"])
        _ = (
            p
            | ReadFromSpark("parquet", {"path": path})
            | beam.Filter(lambda row: row.id % 3 == 0)
            | beam.Map(lambda row: beam.Row(name=row.name, double=2 * row.id, share=row.share))
            | WriteToSpark(
                "parquet",
                {"path": tmp_path / columns},
                "double long, name string, share double",
            )
        )
        p.run().wait_until_finish()
    written = [
        sorted(map(tuple, spark.read.parquet(str(tmp_path / columns)).collect()))
        for columns in ("auto", "off")
    ]
    expected = [(2 * number, name, share) for number, name, share in rows if number % 3 == 0]
    assert written == [expected, expected]


def test_a_relative_path_is_one_from_the_working_folder(
    spark: Any, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(source.parent)
    with pipeline_on(spark) as pipeline:
        rows = pipeline | ReadFromSpark("json", {"path": "in"}, "id int")
        _ = rows | WriteToSpark("csv", {"path": "out"})
    assert [line for file in Path("out").glob("*.csv") for line in file.read_text().split()] == [
        "1",
        "2",
    ]


def test_a_run_that_starts_again_writes_nothing_twice(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = Delivery._write
    lost: list[WriteTarget] = []

    def lossy(delivery: Delivery, rows: Any, place: WriteTarget) -> None:
        if place.spec.option("path").endswith("b") and not lost:
            lost.append(place)
            raise RuntimeError(
                "A shuffle map stage with indeterminate output was failed and retried."
            )
        usual(delivery, rows, place)

    monkeypatch.setattr(Delivery, "_write", lossy)
    with pipeline_on(spark) as pipeline:
        rows = pipeline | beam.Create([{"id": 1}, {"id": 2}])
        for name in "abc":
            _ = rows | name >> WriteToSpark("json", {"path": tmp_path / name}, "id int")
    assert lost
    for name in "abc":
        assert sorted(row.id for row in spark.read.json(str(tmp_path / name)).collect()) == [1, 2]


def test_a_function_gets_all_rows_once_as_a_dataframe(spark: Any, tmp_path: Path) -> None:
    def keep(frame: Any, batch_id: int) -> None:
        rows = sorted([row.id, row.at.isoformat()] for row in frame.collect())
        streams.note(tmp_path, "calls", [batch_id, rows])

    with pipeline_on(spark) as pipeline:
        _ = (
            pipeline
            | beam.Create([{"id": 1, "at": Timestamp(0)}, {"id": 2, "at": Timestamp(1)}])
            | ForeachBatch(keep, "id int, at timestamp_ntz")
        )
    rows = [[1, "1970-01-01T00:00:00"], [2, "1970-01-01T00:00:01"]]
    assert streams.notes(tmp_path) == {"calls": [[0, rows]]}


def test_a_writer_hears_of_its_failure_and_the_run_fails_with_its_label(
    spark: Any, tmp_path: Path
) -> None:
    pipeline = pipeline_on(spark)
    _ = pipeline | beam.Create(["x"]) | "Give" >> Foreach(streams.Failing(tmp_path))
    with pytest.raises(PipelineFailed, match="Step 'Give' failed: KeyError") as caught:
        pipeline.run().wait_until_finish()
    assert isinstance(caught.value.__cause__, KeyError)
    assert "'x'" in json.dumps(streams.notes(tmp_path)["closed"])


def test_a_subclass_of_writer_needs_only_process(spark: Any, tmp_path: Path) -> None:
    with pipeline_on(spark) as pipeline:
        _ = pipeline | beam.Create(["x"]) | Foreach(streams.Short(tmp_path))
    assert streams.notes(tmp_path) == {"rows": ["x"]}
    with pytest.raises(TypeError, match="process"):
        type("Without", (Writer,), {})()


@pytest.mark.parametrize("mode", [[], ["--streaming"]])
def test_no_error_shows_the_secrets_of_a_sink(spark: Any, mode: list[str]) -> None:
    pipeline = pipeline_on(spark, *mode)
    options = {"url": f"jdbc:nothing://host/?password={SECRET}", "dbtable": "t"}
    rows = pipeline | beam.Create([{"id": 1}])
    _ = rows | "Store" >> WriteToSpark("jdbc", options, "id int")
    assert SECRET not in str(SparkRunner(session=spark).explain(pipeline))
    with pytest.raises(PipelineFailed, match="Step 'Store' failed") as caught:
        pipeline.run().wait_until_finish()
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__ or error.__context__


def test_no_error_shows_the_secrets_of_a_source(spark: Any) -> None:
    options = {"url": f"jdbc:nothing://host/?password={SECRET}", "dbtable": "t"}
    with pytest.raises(ConfigurationError, match="cannot determine the schema of 'jdbc'") as caught:
        _ = pipeline_on(spark) | ReadFromSpark("jdbc", options)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.part(2)
@pytest.mark.parametrize("mode", ["stream", "batch"])
def test_sinks_of_one_composite_have_places_of_their_own(
    mode: str, spark: Any, source: Path, tmp_path: Path
) -> None:
    class Store(beam.PTransform[Any, Any]):
        def expand(self, rows: Any) -> Any:
            for name in ("one", "other"):
                stored = rows | name >> WriteToSpark("json", {"path": tmp_path / name}, "id bigint")
            return stored

    def build(pipeline: beam.Pipeline) -> None:
        ids = pipeline | ReadFromSpark("json", {"path": source}, SCHEMA)
        _ = ids | beam.Map(lambda row: {"id": row.id}) | "Store" >> Store()

    if mode == "stream":
        streams.run_available(spark, tmp_path / "checkpoint", build)
    else:
        with pipeline_on(spark) as pipeline:
            build(pipeline)
    for name in ("one", "other"):
        found = spark.read.schema("id bigint").json(str(tmp_path / name)).collect()
        assert sorted(row.id for row in found) == [1, 2], name

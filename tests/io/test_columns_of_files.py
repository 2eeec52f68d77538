"""Columns within structs, those that Spark has of files, and its options for streams of files."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
import streams
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.typehints.row_type import RowTypeConstraint
from pyspark.sql import types as st
from waiting import until

from sparkbeam import ConfigurationError, SparkRunner
from sparkbeam.io import ReadFromSpark
from sparkbeam.plan.spark_io import ReadSpec

DEEP = st.StructType().add("deep", st.LongType(), nullable=False).add("n.n", st.StringType())
SCHEMA = (
    st.StructType()
    .add("id", st.LongType(), nullable=False)
    .add("a.b", st.StringType())
    .add("inner", DEEP, nullable=False)
    .add("maybe", DEEP)
    .add("list", st.ArrayType(DEEP))
)


def read(columns: list[str] | None = None, format: str = "json", **more: Any) -> Any:
    return ReadFromSpark(format, {"path": "/x"}, SCHEMA, columns=columns, **more)


def applied(transform: Any, *options: str) -> tuple[list[tuple[str, Any]], ReadSpec]:
    """The fields of the rows, and what Spark is to read."""
    pipeline = beam.Pipeline(SparkRunner(), argv=[*options])
    rows = pipeline | transform
    kind = rows.element_type
    assert isinstance(kind, RowTypeConstraint)
    return [*kind._fields], ReadSpec.unpack(transform.to_runner_api_parameter(None)[1])


def test_a_path_gives_a_field_with_its_last_name() -> None:
    names = ["id", "inner.deep", "maybe.deep", "_metadata.file_path"]
    with pytest.raises(ConfigurationError, match="two of them would be named 'deep'"):
        applied(read(names))
    names.remove("maybe.deep")
    fields, spec = applied(read(names))
    assert [name for name, _ in fields] == ["id", "deep", "file_path"]
    assert [kind for _, kind in fields] == [int, int, str]
    assert spec.columns == tuple(names)
    assert spec.nested == ("inner.deep", "_metadata.file_path")


def test_what_is_within_a_struct_that_may_be_null_may_be_null() -> None:
    assert applied(read(["maybe.deep"]))[0] == [("deep", int | None)]


def test_a_name_with_a_dot_is_that_of_a_column_where_there_is_one() -> None:
    assert not applied(read(["id"], timestamp_column="a.b"))[1].nested


def test_times_and_partitions_may_be_within_structs_too() -> None:
    _, spec = applied(
        read(
            ["id"],
            timestamp_column="_metadata.file_modification_time",
            partition_column=["inner.deep", "_metadata.file_name"],
        ),
        "--streaming",
    )
    assert spec.nested == (
        "_metadata.file_modification_time",
        "inner.deep",
        "_metadata.file_name",
    )
    assert not spec.by_files


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_rows_know_their_file(format: str, spark: Any, tmp_path: Path) -> None:
    for number in range(2):
        rows = spark.createDataFrame(
            [(number, (10 + number,))], "id bigint, inner struct<deep:int>"
        )
        rows.coalesce(1).write.format(format).save(str(tmp_path / f"in/n={number}"))
    files = [*(tmp_path / "in").rglob(f"part-*.{format}")]
    expected = [
        (number, 10 + number, file.name, file.stat().st_mtime_ns // 1_000_000)
        for file in files
        for number in [int(file.parent.name[-1])]
    ]
    with beam.Pipeline(SparkRunner(spark)) as pipeline:
        found = pipeline | ReadFromSpark(
            format,
            {"path": tmp_path / "in"},
            columns=["n", "inner.deep", "_metadata.file_name"],
            timestamp_column="_metadata.file_modification_time",
        )
        told = found | beam.Map(
            lambda row, time=beam.DoFn.TimestampParam: (*row, time.micros // 1000)
        )
        assert_that(told, equal_to(expected))


def test_a_stream_takes_the_latest_first_and_clears_up(spark: Any, tmp_path: Path) -> None:
    source, archive, seen = tmp_path / "in", tmp_path / "archive", tmp_path / "seen"
    for number in range(3):
        row = {"id": number, "inner": {"deep": 10 * number}}
        streams.write_json(source / f"{number}.json", [row], age_seconds=100 - 10 * number)
    times = {path.name: path.stat().st_mtime_ns // 1000 for path in source.iterdir()}

    def build(pipeline: beam.Pipeline) -> None:
        options = {
            "path": source,
            "maxFilesPerTrigger": 1,
            "latestFirst": True,
            "cleanSource": "archive",
            "sourceArchiveDir": archive,
        }
        rows = pipeline | ReadFromSpark(
            "json",
            options,
            "id bigint, inner struct<deep: bigint>",
            timestamp_column="_metadata.file_modification_time",
            columns=["inner.deep", "_metadata.file_name"],
        )
        stamped = rows | beam.Map(
            lambda row, time=beam.DoFn.TimestampParam: {
                "deep": row.deep,
                "name": row.file_name,
                "time": time.micros,
            }
        )
        _ = stamped | streams.to_notes(seen, "deep bigint, name string, time bigint")

    streams.run_available(spark, tmp_path / "checkpoint", build)
    in_order = [
        [10 * number, f"{number}.json", times[f"{number}.json"] // 1000 * 1000]
        for number in (2, 1, 0)
    ]
    assert [*streams.notes(seen).values()] == [[[row]] for row in in_order]
    until(lambda: len([*archive.rglob("*.json")]) >= 2)
    kept = {path.name for path in archive.rglob("*.json")}
    assert kept >= {"2.json", "1.json"}, "all but those of the last micro-batch"
    assert not kept & {path.name for path in source.iterdir()}

"""Readers see what is committed of a folder: Spark's by its log, and those of pipelines."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import streams
from apache_beam.testing.util import assert_that, equal_to

from sparkbeam import PipelineFailed, SparkRunner
from sparkbeam.connectors.committed_files import file_name
from sparkbeam.connectors.manifest import Manifest
from sparkbeam.connectors.storage import LocalStorage
from sparkbeam.io import ReadFromSpark, WriteToSpark, committed_files
from sparkbeam.streaming.folder_commits import FolderCommits

SCHEMA = "id bigint, day string"
SINK_ID = "0123456789ab-01234567"


def test_sparks_readers_follow_the_log(spark: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out put"

    def build(pipeline: beam.Pipeline) -> None:
        rows = pipeline | ReadFromSpark(
            "json", {"path": source, "maxFilesPerTrigger": 1}, schema=SCHEMA
        )
        _ = rows | WriteToSpark("json", {"path": target}, partition_by=["day"], layout="manifest")

    expected = [(number, f"2030-01-{1 + number % 2:02d} x") for number in range(11)]
    log = Manifest(LocalStorage(), str(target))
    for number, day in expected[:9]:
        name = f"day={day}/{number}.json"
        LocalStorage().write(f"{target}/{name}", json.dumps({"id": number}).encode())
        log.add([name])
    for number, day in expected[9:]:
        row = {"id": number, "day": day}
        streams.write_json(source / f"{number}.json", [row], age_seconds=100 - number)
    streams.run_available(spark, tmp_path / "checkpoint", build)
    names = {path.name for path in (target / "_spark_metadata").iterdir()}
    assert names == {*map(str, range(9)), "9.compact", "10"}
    (target / "day=2030-01-01 x" / "part-of-nobody.json").write_text('{"id": 99}\n')
    written = spark.read.json(str(target))
    assert sorted((row.id, row.day) for row in written.collect()) == expected
    assert len(committed_files(str(target))) == 11

    with beam.Pipeline(SparkRunner(spark)) as pipeline:
        rows = pipeline | ReadFromSpark("json", {"path": target}, SCHEMA)
        assert_that(rows | beam.Map(tuple), equal_to(expected))
    query = (
        spark.readStream.schema(SCHEMA)
        .json(str(target))
        .writeStream.format("memory")
        .queryName("of_the_log")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert spark.table("of_the_log").count() == 11
    adding = beam.Pipeline(SparkRunner(spark))
    row = adding | beam.Create([{"id": 1, "day": "x"}])
    _ = row | WriteToSpark("json", {"path": target}, SCHEMA)
    with pytest.raises(PipelineFailed, match="has a _spark_metadata"):
        adding.run().wait_until_finish()


@pytest.mark.parametrize(
    ("format", "partitions"), [("parquet", ["day"]), ("json", ["day"]), ("parquet", [])]
)
def test_a_read_of_a_folder_leaves_out_what_is_not_committed(
    format: str, partitions: list[str], spark: Any, tmp_path: Path
) -> None:
    """Workers read files of Parquet without partitions, and Spark the others."""
    folder = tmp_path / "out"
    expected = [(0, "a"), (1, "b")]

    def write(target: str) -> None:
        frame = spark.createDataFrame(expected, SCHEMA).coalesce(1)
        frame.write.format(format).partitionBy(*partitions).save(target)

    FolderCommits(str(folder), SINK_ID).commit(0, write)
    for path in [*folder.rglob(f"part-*.{format}")]:  # As the driver moves the next ones in.
        path.with_name(file_name(SINK_ID, 1, 0, path.name)).write_bytes(path.read_bytes())
    assert spark.read.format(format).load(str(folder)).count() == 4
    with beam.Pipeline(SparkRunner(spark)) as pipeline:
        reads: dict[str, Any] = {"all": (folder, expected)}
        if partitions:
            reads["a day"] = folder / "day=b", [(1,)]
        for label, (path, rows) in reads.items():
            found = pipeline | label >> ReadFromSpark(format, {"path": path})
            assert_that(found | f"{label} rows" >> beam.Map(tuple), equal_to(rows), label)


def test_a_folder_in_which_nothing_is_committed_has_no_rows(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    FolderCommits(str(folder), SINK_ID).resume()
    folder.mkdir()
    pq.write_table(pa.table({"id": [1]}), folder / file_name(SINK_ID, 0, 0, "x.parquet"))
    with beam.Pipeline(SparkRunner(spark)) as pipeline:
        for label, schema in (("told", "id bigint"), ("asked", None)):
            rows = pipeline | label >> ReadFromSpark("parquet", {"path": folder}, schema)
            assert_that(rows, equal_to([]), f"{label} rows")


def test_a_log_begins_with_what_the_folder_has(tmp_path: Path) -> None:
    folder = str(tmp_path / "out")

    def write(batch_id: int, target: str) -> None:
        for number in range(1 + batch_id):
            path = Path(target, f"part={number}", f"part-0000{number}-x-c000.parquet")
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"batch": [batch_id]}), path)
        Path(target, "_SUCCESS").touch()

    FolderCommits(folder, SINK_ID).commit(0, partial(write, 0))
    with_log = FolderCommits(folder, SINK_ID, has_manifest=True)
    for batch_id in range(2):
        with_log.commit(batch_id, partial(write, 1))
    tables = [pq.ParquetFile(file).read() for file in committed_files(folder)]
    assert sorted(number for table in tables for number in table["batch"].to_pylist()) == [0, 1, 1]

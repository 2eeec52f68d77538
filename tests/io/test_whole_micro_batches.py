"""No reader sees a part of a micro-batch, whatever becomes of the writer."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import manifest_writer
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import streams
from apache_beam.testing.util import assert_that, equal_to
from waiting import until

from sparkbeam import PipelineFailed, SparkRunner
from sparkbeam.connectors.committed_files import file_name
from sparkbeam.connectors.manifest import Manifest
from sparkbeam.connectors.storage import LocalStorage
from sparkbeam.io import ReadFromSpark, WriteToSpark, committed_files
from sparkbeam.streaming.folder_commits import FolderCommits

SCHEMA = "id bigint, day string"


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


READERS = 2
"""Number of polls at a time."""


def test_no_poll_by_spark_sees_a_part_while_the_writer_is_killed(
    spark: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folders, kills, polls = (100, 2, 50) if request.config.getoption("whole") else (1, 2, 6)
    with ThreadPoolExecutor(READERS) as readers:
        for number in range(folders):
            folder, seen = tmp_path / str(number), 0
            for _ in range(kills):
                polled, before = 0, seen
                with killed_in_the_end(folder):
                    while polled < polls or seen == before:
                        seen = max(readers.map(partial(poll, spark, folder), [seen] * READERS))
                        polled += READERS
                seen = poll(spark, folder, seen)


@contextmanager
def killed_in_the_end(folder: Path) -> Iterator[None]:
    """A process that writes to a folder meanwhile."""
    writer = subprocess.Popen([sys.executable, manifest_writer.__file__, str(folder)])
    try:
        until((folder / "_spark_metadata").exists)
        yield
        assert writer.poll() is None
    finally:
        writer.kill()
        writer.wait()


def poll(spark: Any, folder: Path, before: int) -> int:
    """How many micro-batches there are, each as a whole."""
    schema = "batch bigint, part int"
    rows = spark.read.schema(schema).parquet(str(folder)).select("batch").coalesce(1)
    found = Counter(number for (number,) in rows.collect())
    assert found == dict.fromkeys(range(len(found)), manifest_writer.ROWS)
    assert len(found) >= before
    return len(found)


@pytest.mark.parametrize("format", ["parquet", "json"])
def test_a_read_of_a_folder_leaves_out_what_is_not_committed(
    format: str, spark: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "out"

    def write(target: str) -> None:
        frame = spark.createDataFrame([(0, "a"), (1, "b")], SCHEMA).coalesce(1)
        frame.write.format(format).partitionBy("day").save(target)

    FolderCommits(str(folder), manifest_writer.SINK_ID).commit(0, write)
    for path in [*folder.rglob(f"part-*.{format}")]:  # As the driver moves the next ones in.
        path.with_name(file_name(manifest_writer.SINK_ID, 1, 0, path.name)).write_bytes(
            path.read_bytes()
        )
    assert spark.read.format(format).load(str(folder)).count() == 4
    with beam.Pipeline(SparkRunner(spark)) as pipeline:
        for label, path, columns in (
            ("all", folder, [(0, "a"), (1, "b")]),
            ("a day", folder / "day=b", [(1,)]),
        ):
            rows = pipeline | label >> ReadFromSpark(format, {"path": path})
            assert_that(rows | f"{label} rows" >> beam.Map(tuple), equal_to(columns), label)


def test_workers_read_no_file_that_is_not_committed(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    spark.createDataFrame([(0,), (1,)], "id bigint").coalesce(1).write.parquet(str(tmp_path / "a"))
    (written,) = (tmp_path / "a").glob("part-*.parquet")

    def write(target: str) -> None:
        Path(target).mkdir(parents=True)
        Path(target, "part-0-c000.parquet").write_bytes(written.read_bytes())
        Path(target, "_SUCCESS").touch()

    FolderCommits(str(folder), manifest_writer.SINK_ID).commit(0, write)
    younger = folder / file_name(manifest_writer.SINK_ID, 1, 0, written.name)
    younger.write_bytes(written.read_bytes())
    with beam.Pipeline(SparkRunner(spark)) as pipeline:
        rows = pipeline | ReadFromSpark("parquet", {"path": folder})
        counted = rows | beam.Map(lambda row: row.id) | beam.combiners.Count.PerElement()
        assert_that(counted, equal_to([(0, 1), (1, 1)]))


def test_a_folder_in_which_nothing_is_committed_has_no_rows(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    FolderCommits(str(folder), manifest_writer.SINK_ID).resume()
    folder.mkdir()
    pq.write_table(
        pa.table({"id": [1]}), folder / file_name(manifest_writer.SINK_ID, 0, 0, "x.parquet")
    )
    with beam.Pipeline(SparkRunner(spark)) as pipeline:
        for label, schema in (("told", "id bigint"), ("asked", None)):
            rows = pipeline | label >> ReadFromSpark("parquet", {"path": folder}, schema)
            assert_that(rows, equal_to([]), f"{label} rows")


def test_a_log_begins_with_what_the_folder_has(tmp_path: Path) -> None:
    folder = str(tmp_path / "out")
    FolderCommits(folder, manifest_writer.SINK_ID).commit(0, partial(manifest_writer.write, 0))
    with_log = FolderCommits(folder, manifest_writer.SINK_ID, has_manifest=True)
    for batch_id in range(2):
        with_log.commit(batch_id, partial(manifest_writer.write, 1))
    batches = Counter[int]()
    for file in committed_files(folder):
        batches.update(pq.ParquetFile(file).read()["batch"].to_pylist())
    assert batches == {0: manifest_writer.ROWS, 1: manifest_writer.ROWS}

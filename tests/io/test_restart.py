"""Sinks of a streaming query that starts again over its checkpoint."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import pandas as pd
import streams

from sparkbeam import SparkRunner
from sparkbeam.io import Foreach, ReadFromSpark, WriteToSpark, committed_files

SCHEMA = "id bigint, batch string"


def test_a_micro_batch_that_runs_again_is_not_written_twice(spark: Any, tmp_path: Path) -> None:
    source, target, divided = tmp_path / "in", tmp_path / "out", tmp_path / "divided"
    batches, elements = tmp_path / "batches", tmp_path / "elements"
    checkpoint = tmp_path / "checkpoint"

    def build(pipeline: beam.Pipeline) -> None:
        rows = pipeline | ReadFromSpark(
            "json", {"path": source, "maxFilesPerTrigger": 1}, schema=SCHEMA
        )
        _ = rows | "Files" >> WriteToSpark("parquet", {"path": target})
        _ = rows | "Divided" >> WriteToSpark("csv", {"Path": divided}, partition_by=["batch"])
        _ = rows | "Function" >> streams.to_notes(batches)
        _ = rows | "Writer" >> Foreach(streams.NotingWriter(elements))

    for number in range(2):
        streams.write_json(source / f"{number}.json", [{"id": number, "batch": "b"}], 9 - number)
    streams.run_available(spark, checkpoint, build)
    first = streams.notes(batches)
    assert first == {"0": [[[0, "b"]]], "1": [[[1, "b"]]]}, "one file in each micro-batch"
    before = committed_files(str(target))

    streams.rewind(checkpoint, 1)
    streams.write_json(source / "2.json", [{"id": 2, "batch": "b"}])
    streams.run_available(spark, checkpoint, build)
    zero, one, two = [[0, "b"]], [[1, "b"]], [[2, "b"]]
    assert streams.notes(batches) == {"0": [zero], "1": [one, one], "2": [two]}
    assert streams.notes(elements)["1"] == [1, 1], "the same number, the same elements"

    written = spark.read.parquet(str(target))
    assert written.columns == ["id", "batch"]
    assert sorted(row.id for row in written.collect()) == [0, 1, 2]
    assert sorted(pd.read_parquet(target)["id"]) == [0, 1, 2]
    assert {path.parent for path in target.rglob("*")} == {target}, "one folder, and data alone"
    assert set(before) < set(committed_files(str(target))), "what was there stays"
    found = spark.read.schema(SCHEMA).csv(str(divided)).collect()
    assert sorted((row.id, row.batch) for row in found) == [(0, "b"), (1, "b"), (2, "b")]


def test_batch_and_streaming_leave_files_in_the_same_places(spark: Any, tmp_path: Path) -> None:
    def build(pipeline: beam.Pipeline) -> None:
        _ = (
            pipeline
            | beam.Create([{"id": 1, "batch": "b"}, {"id": 2, "batch": "c"}])
            | WriteToSpark("parquet", {"path": target}, SCHEMA, partition_by=["batch"])
        )

    for target in (tmp_path / "batch", tmp_path / "stream"):
        if target.name == "batch":
            with beam.Pipeline(runner=SparkRunner(session=spark)) as pipeline:
                build(pipeline)
        else:
            streams.run_available(spark, tmp_path / "checkpoint", build)
        files = [Path(file).relative_to(target) for file in committed_files(str(target))]
        assert {str(file.parent) for file in files} == {"batch=b", "batch=c"}
        assert {"".join(file.suffixes)[-15:] for file in files} == {".snappy.parquet"}
        found = [(row.id, row.batch) for row in spark.read.parquet(str(target)).collect()]
        assert sorted(found) == [(1, "b"), (2, "c")]

"""Sinks of a streaming query that starts again over its checkpoint."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import streams

from sparkbeam.io import Foreach, ForeachBatch, ReadFromSpark, WriteToSpark

SCHEMA = "id bigint, name string"


def test_a_micro_batch_that_runs_again_is_not_written_twice(spark: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    batches, elements = tmp_path / "batches", tmp_path / "elements"
    checkpoint = tmp_path / "checkpoint"

    def keep(frame: Any, batch_id: int) -> None:
        streams.note(batches, str(batch_id), sorted(row.id for row in frame.collect()))

    def build(pipeline: beam.Pipeline) -> None:
        rows = pipeline | ReadFromSpark(
            "json", {"path": source, "maxFilesPerTrigger": 1}, schema=SCHEMA
        )
        _ = rows | WriteToSpark("parquet", {"path": target})
        _ = rows | "Function" >> ForeachBatch(keep)
        _ = rows | "Writer" >> Foreach(streams.NotingWriter(elements))

    for number in range(2):
        streams.write_json(source / f"{number}.json", [{"id": number, "name": "n"}], 9 - number)
    streams.run_available(spark, checkpoint, build)
    first = streams.notes(batches)
    assert first == {"0": [[0]], "1": [[1]]}, "one file in each micro-batch"

    streams.rewind(checkpoint, 1)
    streams.write_json(source / "2.json", [{"id": 2, "name": "n"}])
    streams.run_available(spark, checkpoint, build)
    assert streams.notes(batches) == {"0": [[0]], "1": [[1], [1]], "2": [[2]]}
    assert streams.notes(elements)["1"] == [1, 1], "the same number, the same elements"
    written = spark.read.parquet(str(target))
    assert sorted(row.id for row in written.collect()) == [0, 1, 2]
    assert written.columns == ["id", "name", "batch"]

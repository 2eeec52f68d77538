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

    def written() -> list[int]:
        if not any(target.glob("*/*.parquet")):
            return []
        return sorted(row.id for row in spark.read.parquet(str(target)).collect())

    for number in range(2):
        streams.write_json(source / f"{number}.json", [{"id": number, "name": "n"}], 9 - number)
    streams.run_until(spark, checkpoint, build, lambda: written() == [0, 1])
    first = streams.notes(batches)
    assert list(first.values()) == [[[0]], [[1]]], "one file in each micro-batch"

    _rewind(checkpoint, int(max(first, key=int)))
    streams.write_json(source / "2.json", [{"id": 2, "name": "n"}])
    streams.run_until(spark, checkpoint, build, lambda: 2 in written())
    assert written() == [0, 1, 2]
    again = streams.notes(batches)
    one, two, three = sorted(again, key=int)
    assert again == {one: [[0]], two: [[1], [1]], three: [[2]]}, "the same number, the same rows"
    noted = streams.notes(elements)
    assert noted[two] == [1, 1]
    assert noted["closed"]
    assert spark.read.parquet(str(target)).columns == ["id", "name", "batch"]


def _rewind(checkpoint: Path, number: int) -> None:
    """Forgets all micro-batches from one on, but not its own offsets."""
    while streams.forget_last_commit(checkpoint) > number:
        pass

"""Streaming pipelines for tests: run for a while, over a checkpoint."""

import json
import os
import time
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from sparkbeam import SparkRunner
from sparkbeam.io import ForeachBatch, Writer

PATIENCE_SECONDS = 150


def pipeline_on(spark: Any, *options: str) -> beam.Pipeline:
    """Return a pipeline with options."""
    return beam.Pipeline(SparkRunner(session=spark), options=PipelineOptions([*options]))


def run_until(
    spark: Any,
    checkpoint: Path,
    build: Callable[[beam.Pipeline], None],
    done: Callable[[], bool],
) -> None:
    """Runs a pipeline until something has come out of it, and cancels it."""
    options = ("--streaming", f"--checkpoint_location={checkpoint}", "--shards=1")
    pipeline = pipeline_on(spark, *options)
    build(pipeline)
    result = pipeline.run()
    try:
        end = time.monotonic() + PATIENCE_SECONDS
        while not done():
            assert time.monotonic() < end, "the pipeline put out too little"
            if result.state in ("DONE", "FAILED"):
                result.wait_until_finish()
            time.sleep(0.05)
    finally:
        if result.state == "RUNNING":
            result.cancel()


def run_available(spark: Any, checkpoint: Path, build: Callable[[beam.Pipeline], None]) -> None:
    """Runs a pipeline until it has done what is there."""
    run_to_the_end(spark, checkpoint, build, "--trigger=available-now")


def run_to_the_end(
    spark: Any, checkpoint: Path, build: Callable[[beam.Pipeline], None], *more: str
) -> None:
    """Runs a pipeline until all its sources have ended."""
    arguments = ("--streaming", "--shards=1", f"--checkpoint_location={checkpoint}", *more)
    pipeline = pipeline_on(spark, *arguments)
    build(pipeline)
    pipeline.run().wait_until_finish()


def note(folder: Path, name: str, content: Any) -> None:
    """Adds a line to a file, as what runs in Spark's processes can."""
    folder.mkdir(exist_ok=True)
    with (folder / name).open("a") as file:
        file.write(json.dumps(content) + "\n")


def to_notes(folder: Path, schema: Any = None) -> ForeachBatch:
    """Return a sink that adds the rows of a micro-batch to a file with its number."""

    def keep(frame: Any, batch_id: int) -> None:
        note(folder, str(batch_id), sorted([*row] for row in frame.collect()))

    return ForeachBatch(keep, schema)


def noted_rows(folder: Path) -> list[list[Any]]:
    """The rows of all micro-batches, in their order."""
    batches = sorted(notes(folder).items(), key=lambda item: int(item[0]))
    return [row for _, lines in batches for rows in lines for row in rows]


def notes(folder: Path) -> dict[str, list[Any]]:
    """The lines of all files."""
    return {
        path.name: [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted(folder.glob("*"))
    }


def write_json(path: Path, rows: list[dict[str, Any]], age_seconds: int = 0) -> None:
    """A file of a Spark source, there as a whole at once; Spark takes older ones first."""
    path.parent.mkdir(exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    modified = time.time() - age_seconds
    os.utime(hidden, (modified, modified))
    hidden.rename(path)


def rewind(checkpoint: Path, number: int) -> None:
    """Leaves a checkpoint as a failure at the end of a micro-batch leaves it."""
    for log, first in (("commits", number), ("offsets", number + 1)):
        for path in (checkpoint / log).glob("[0-9]*"):
            if int(path.name) >= first:
                path.unlink()
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


class Thing(typing.NamedTuple):
    """An element whose type tells the schema."""

    id: int
    name: str | None


class Failing:
    """A writer that notes how it ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def process(self, row: Any) -> None:
        raise KeyError(row)

    def close(self, error: Exception | None) -> None:
        note(self._folder, "closed", str(error))


class Short(Writer):
    """A writer with what is required, and nothing else."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def process(self, row: Any) -> None:
        note(self._folder, "rows", row)


class Undecided(Short):
    """Forgets to return a value."""

    def open(self, partition_id: int, epoch_id: int) -> bool:
        note(self._folder, "opened", epoch_id)
        return None  # type: ignore[return-value]


class NotingWriter:
    """Notes what it is called with."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, partition_id: int, epoch_id: int) -> bool:
        self._name = f"{epoch_id}"
        return True

    def process(self, row: Any) -> None:
        note(self._folder, self._name, row.id)

    def close(self, error: Exception | None) -> None:
        assert error is None
        note(self._folder, "closed", self._name)


class Word(typing.NamedTuple):
    """A word with all kinds of fields."""

    text: str
    count: int  # type: ignore[assignment]
    share: float | None
    parts: list[str]
    places: dict[str, int]
    inner: Thing

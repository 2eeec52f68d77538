"""Sessions into files and a stateful DoFn with timers into SQLite, of one stream.

The users of the stream rest now and then, which ends their sessions. :func:`expected` runs the same
steps in batch.
"""

import sqlite3
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import ordered
import pyarrow.dataset as ds
from apache_beam.transforms.window import GlobalWindows, Sessions, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from paced import Numbers, copies, run

from sparkbeam.io import ForeachBatch, WriteToSpark

GAP_SECONDS = 5
REST = 2_000
"""A user has numbers for this long, and then none."""

SCHEMA = "user bigint, start bigint, numbers bigint"
COLUMNS = ("user", "start", "numbers")
OPTIONS = (f"--spark_py_files={ordered.__file__}",)


def user(number: int) -> int:
    """Whose number it is."""
    return ordered.user(number) + ordered.USERS * (number // REST % 2)


def session(found: tuple[int, int], window: Any = beam.DoFn.WindowParam) -> dict[str, int]:
    """The row of a session."""
    return dict(zip(COLUMNS, (found[0], window.start.micros // 1000, found[1]), strict=True))


def rows(numbers: beam.PCollection) -> tuple[beam.PCollection, beam.PCollection]:
    """The rows for the files, and those for the table."""
    by_user = numbers | "By user" >> beam.Map(
        lambda number: (user(number), number)
    ).with_output_types(tuple[int, int])
    sessions = (
        by_user
        | "Sessions" >> beam.WindowInto(Sessions(GAP_SECONDS))
        | "Count" >> beam.combiners.Count.PerKey()
        | "Row" >> beam.Map(session)
        | "All windows" >> beam.WindowInto(GlobalWindows())
    )
    return sessions, by_user | "In order" >> beam.ParDo(ordered.InOrder())


def build(pipeline: beam.Pipeline, events: int, rate: float, output: str) -> None:
    """The pipeline."""
    sessions, in_order = rows(pipeline | "Events" >> Numbers(events, rate, ordered.time_ms))
    _ = sessions | WriteToSpark("parquet", {"path": output}, SCHEMA)
    _ = in_order | ForeachBatch(ordered.IntoSqlite(f"{output}.db"), ordered.SCHEMA)


def expected(events: int) -> Counter[tuple[Any, ...]]:
    """The rows of both outputs in batch, and how often they are there."""
    from in_process_batch import BatchRunner  # Not where the stream runs.

    every = [number for number in range(events) for _ in range(copies(number))]
    with tempfile.TemporaryDirectory() as folder:
        with beam.Pipeline(runner=BatchRunner()) as pipeline:
            numbers = (
                pipeline
                | beam.Create(every)
                | beam.Map(
                    lambda n: TimestampedValue(n, Timestamp(micros=ordered.time_ms(n) * 1000))
                )
            )
            texts = [
                some | f"Text {place}" >> beam.Map(lambda row, p=place: f"{p} {[*row.values()]}")
                for place, some in enumerate(rows(numbers))
            ]
            _ = texts | beam.Flatten() | beam.io.WriteToText(f"{folder}/rows")
        lines = [line for path in Path(folder).iterdir() for line in path.read_text().splitlines()]
    return Counter(tuple(map(int, line.translate(_PLAIN).split())) for line in lines)


_PLAIN = str.maketrans("[],", "   ")


def written(output: Path) -> Counter[tuple[Any, ...]]:
    """The rows of both outputs, and how often they are there."""
    files = ds.dataset(output, format="parquet").to_table(columns=list(COLUMNS)).to_pydict()
    found = Counter((0, *row) for row in zip(*files.values(), strict=True))
    with sqlite3.connect(f"{output}.db") as database:
        found.update((1, *row) for row in database.execute("SELECT user, number, before FROM rows"))
    return found


if __name__ == "__main__":
    run(build)

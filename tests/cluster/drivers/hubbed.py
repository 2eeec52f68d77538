"""Numbers from one event hub to another, and into files; see ``bench/hubcluster.py``.

Usage: ``hubbed.py NUMBERS RATE OUTPUT [pipeline options]``

The hubs are those of the server whose connection string is in the variable ``HUB``. The numbers
come from there, so that the rate is not used. The stream ends when the file :func:`end_of` the
output tells how many numbers there are, and the output has as many, or gets no more.

``hubbed.py once OUTPUT [pipeline options]`` is a batch that writes a file with the numbers in the
second hub, without repeats.
"""

import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow.dataset as ds

from sparkbeam.io import WriteToSpark
from sparkbeam_eventhubs import (
    EventHubsEvent,
    EventPosition,
    ReadFromEventHubs,
    WriteToEventHubs,
)

IN, OUT = "in", "out"
SCHEMA = "number bigint"

_PATIENCE = 60.0
_POLL_SECONDS = 0.5


def end_of(output: Path) -> Path:
    """The file that tells how many numbers there are."""
    return output.with_name("end")


def body(event: EventHubsEvent) -> bytes:
    """What was sent."""
    return event.body


def build(pipeline: beam.Pipeline, output: str) -> None:
    """The pipeline."""
    bodies = (
        pipeline
        | ReadFromEventHubs(os.environ["HUB"], IN, starting_position=EventPosition.start())
        | beam.Map(body)
    )
    _ = bodies | WriteToEventHubs(os.environ["HUB"], OUT, max_batch_bytes=2000)
    _ = (
        bodies
        | "Rows" >> beam.Map(lambda number: {"number": int(number)})
        | WriteToSpark("parquet", {"path": output}, SCHEMA)
    )


def expected(events: int) -> Counter[int]:
    """The numbers, and how often they are there."""
    return Counter(range(events))


def written(output: Path) -> Counter[int]:
    """The numbers in the files, and how often they are there."""
    if not output.exists():
        return Counter()
    table = ds.dataset(output, format="parquet", schema=None).to_table()
    return Counter(table["number"].to_pylist() if "number" in table.column_names else ())


def stream(output: Path, options: list[str]) -> None:
    """Runs until all that there will be has been written."""
    pipeline = beam.Pipeline(argv=["--runner=sparkbeam.SparkRunner", "--streaming", *options])
    build(pipeline, str(output))
    result: Any = pipeline.run()
    found, since = -1, time.monotonic()
    while not beam.runners.runner.PipelineState.is_terminal(result.state):
        time.sleep(_POLL_SECONDS)
        if not end_of(output).exists():
            continue
        before, found = found, written(output).total()
        if found != before:
            since = time.monotonic()
        if found >= int(end_of(output).read_text()) or time.monotonic() - since > _PATIENCE:
            result.drain()
            break
    result.wait_until_finish()


def once(output: str, options: list[str]) -> None:
    """What is in the second hub, without repeats."""
    with beam.Pipeline(argv=["--runner=sparkbeam.SparkRunner", *options]) as pipeline:
        _ = (
            pipeline
            | ReadFromEventHubs(os.environ["HUB"], OUT, drop_repeats=True)
            | beam.Map(lambda event: event.body.decode())
            | beam.io.WriteToText(output, shard_name_template="")
        )


if __name__ == "__main__":
    if sys.argv[1] == "once":
        once(sys.argv[2], sys.argv[3:])
    else:
        stream(Path(sys.argv[3]), sys.argv[4:])

"""Where Spark reads the partitions of an event hub, on real executors.

Run with ``python bench/hubplaces.py``. A pipeline from a hub runs on standalone clusters of this
machine, with executors of one core, each placement once. After the first micro-batch it is counted
how many reads went on with a receiver that was there already, in the same process or in another one
of the machine, how many partitions were read by the executor that had read them before, and how
evenly each micro-batch was spread. ``apart`` means that executors share nothing, as on machines of
their own.
"""

import argparse
import json
import os
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from eventhubs import HUB, served
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cluster"))

from standalone import Cluster

from pyspark_eventhubs import data_source
from pyspark_eventhubs.placement import PLACEMENTS
from pyspark_eventhubs.source_options import SourceOptions
from sparkbeam.io import ForeachBatch
from sparkbeam_eventhubs import EventPosition, ReadFromEventHubs
from sparkbeam_eventhubs import source as hub_source


class NotingSource(hub_source.PipelineHubSource):
    """The data source, which notes for each read who has done it, and with which receiver."""

    folder = ""

    def streamReader(self, schema: StructType) -> data_source.EventHubsStreamReader:
        """One that notes."""
        return NotingReader(SourceOptions.parse(self.options), schema, self.folder)


class NotingReader(data_source.EventHubsStreamReader):
    """Notes what it reads."""

    def __init__(self, options: SourceOptions, schema: StructType, folder: str) -> None:
        super().__init__(options, schema)
        self._folder = folder

    def read(self, partition: Any) -> Iterator[Any]:
        """Notes what comes of a read; called in a task."""
        from pyspark_eventhubs.pool import POOL

        def counts() -> dict[str, int]:
            return {"own": POOL.reused, "neighbour": POOL.borrowed, "new": POOL.made}

        before = counts()
        yield from super().read(partition)
        note = {
            "batch": partition.number,
            "partition": partition.events.partition,
            "executor": os.environ["SPARK_LOCAL_IP"],
            **{name: count - before[name] for name, count in counts().items()},
        }
        with (Path(self._folder) / str(os.getpid())).open("a") as file:
            file.write(json.dumps(note) + "\n")


def run(options: list[str], text: str, placement: str, most: int) -> list[dict[str, Any]]:
    """Runs a stream; gives the notes of its reads."""
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes"
        notes.mkdir()
        NotingSource.folder = str(notes)
        own = f"--checkpoint_location={folder}/checkpoint"
        argv = ["--runner=sparkbeam.SparkRunner", "--streaming", "--trigger=available-now", own]
        with beam.Pipeline(argv=[*argv, *options]) as pipeline:
            _ = (
                pipeline
                | ReadFromEventHubs(
                    text,
                    starting_position=EventPosition.start(),
                    placement=placement,
                    max_events_per_trigger=most,
                )
                | beam.Map(lambda event: {"length": len(event.body)})
                | ForeachBatch(_nothing, "length bigint")
            )
        lines = [line for path in notes.iterdir() for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def _nothing(batch: Any, number: int) -> None:
    batch.count()


def row(notes: list[dict[str, Any]], executors: int) -> list[str]:
    """What the notes say about the micro-batches after the first."""
    where: dict[int, dict[str, str]] = defaultdict(dict)
    for note in notes:
        where[note["batch"]][note["partition"]] = note["executor"]
    later = [note for note in notes if note["batch"] > min(where)]
    reads = len(later)
    met = {kind: sum(note[kind] > 0 for note in later) for kind in ("own", "neighbour", "new")}
    stayed = sum(
        where[note["batch"] - 1].get(note["partition"]) == note["executor"] for note in later
    )
    spread: Counter[int] = Counter()
    for placed in where.values():
        counts = Counter(placed.values())
        least = min(counts.values()) if len(counts) == executors else 0
        spread[max(counts.values()) - least] += 1
    return [
        str(reads),
        *(f"{count / reads:.0%}" for count in met.values()),
        f"{stayed / reads:.0%}",
        ", ".join(f"{much}: {spread[much]}" for much in sorted(spread)),
    ]


def main() -> None:
    """Runs the streams and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executors", default="2,4")
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--batches", type=int, default=15)
    parser.add_argument("--events", type=int, default=100, help="of a partition in a micro-batch")
    arguments = parser.parse_args()
    table = Table(
        *("executors", "machines", "placement", "reads", "own process", "neighbour", "new"),
        *("same executor", "most less least: micro-batches"),
    )
    partitions, batches = arguments.partitions, arguments.batches
    os.environ["PYSPARK_PYTHON"] = sys.executable
    hub_source.PipelineHubSource = NotingSource  # type: ignore[misc]
    with served(partitions, arguments.events * batches, 100) as (text, _):
        for executors in map(int, arguments.executors.split(",")):
            for apart in (False, True):
                with Cluster(executors, apart=apart) as cluster:
                    for placement in PLACEMENTS:
                        notes = run(
                            cluster.options(), text, placement, arguments.events * partitions
                        )
                        kind = "apart" if apart else "one"
                        cells = [str(executors), kind, placement, *row(notes, executors)]
                        print(*cells, sep=" | ", flush=True)
                        table.add_row(*cells)
                    SparkSession.builder.getOrCreate().stop()
    Console(width=140).print(f"{partitions} partitions of {HUB}, {batches} micro-batches", table)


if __name__ == "__main__":
    main()

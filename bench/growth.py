"""Batch over columns as data grows: does the time grow in proportion, and does memory stay flat?

Run with ``python bench/growth.py``. Nexmark's bids among 1, 10 and 100 million events are written
to Parquet and read with ReadFromParquet, in one session on two cores: query 11, whose results grow
with them, and the sum of each bidder. Each pipeline runs once before it is measured. Memory is the
most that the Python workers had at once, looked at every tenth of a second.
"""

import argparse
import logging
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import psutil
from columns import Task, in_beam, of_files, of_sessions, session_counts, write_bids
from places import CORES
from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.spark import session

MIB = 1 << 20


def bidder_sums(bids: Any) -> Any:
    """What each bidder has bid."""
    return (
        bids
        | "prices" >> beam.Map(lambda bid: (bid.bidder, bid.price))
        | beam.CombinePerKey(sum)
        | beam.MapTuple(lambda bidder, total: total)
    )


TASKS = {
    "sessions": of_files(Task("bids of a bidder in a session", session_counts, of_sessions)),
    "sums": of_files(
        Task(
            "sum of a bidder",
            bidder_sums,
            lambda bids: bids.groupBy("bidder").agg(sf.sum("price").alias("number")),
        )
    ),
}


class Watch:
    """Watches the memory of the Python workers.

    Attributes:
        most: the most that they had at once, in bytes.
    """

    def __init__(self) -> None:
        self.most = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.1):
            self.most = max(self.most, sum(map(_resident, psutil.Process().children(True))))


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss) if "python" in process.name() else 0
    except psutil.Error:
        return 0


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[10**6, 10**7, 10**8])
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    spark = session.obtain(SparkBeamOptions([f"--spark_master=local[{CORES}]"]))
    table = Table("task", "events", "results", "s", "ns an event", "workers at most, MiB")
    with tempfile.TemporaryDirectory() as scratch:
        for events in arguments.events:
            folder = str(Path(scratch, str(events)))
            write_bids(spark, events, folder)
            for task in TASKS.values():
                in_beam(spark, folder, task)
                with Watch() as watch:
                    start = time.perf_counter()
                    results, _ = in_beam(spark, folder, task)
                    taken = time.perf_counter() - start
                of_event = f"{1e9 * taken / events:,.0f}"
                memory = f"{watch.most / MIB:,.0f}"
                row = (f"{events:,}", f"{results:,}", f"{taken:.2f}", of_event, memory)
                table.add_row(task.name, *row)
                print(task.name, *row, file=sys.stderr, flush=True)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()

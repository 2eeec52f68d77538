"""Latency of a stream: from an event to the sink, beside queries written with Structured Streaming.

Run with ``python bench/latency.py``. Spark's source ``rate`` has some rows a second, each with the
time at which it came into being; it shows them once a second. A function of ``foreachBatch`` takes
the time again. Both programs do so in one session, in turns. The last rows are the CPU time that a
pipeline needs while its source, a folder, stays empty.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import psutil
from apache_beam.options.pipeline_options import PipelineOptions
from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table
from streaming import started

from sparkbeam import SparkRunner
from sparkbeam.io import ForeachBatch, ReadFromSpark

WARM_UP_SECONDS = 10


def measured(start: Callable[[Any], Callable[[], None]], seconds: float) -> list[float]:
    """Starts a program with a function for ``foreachBatch``; returns what its rows have waited."""
    with tempfile.NamedTemporaryFile() as file:
        name = file.name

        def took(frame: Any, batch: int) -> None:
            rows = frame.collect()
            now = time.time()
            # A pipeline pickles its functions, so that there is no list in common.
            with open(name, "a") as waited:
                waited.writelines(f"{now} {now - row.sent}\n" for row in rows)

        stop = start(took)
        while not Path(name).stat().st_size:
            time.sleep(0.1)
        time.sleep(WARM_UP_SECONDS + seconds)
        stop()
        lines = [tuple(map(float, line.split())) for line in Path(name).read_text().splitlines()]
    return [waited for now, waited in lines if now >= lines[0][0] + WARM_UP_SECONDS]


def of_beam(spark: Any, read: Callable[[], ReadFromSpark], row: Callable[[Any], Any]) -> Any:
    """A pipeline of a source, a Map and ``foreachBatch``, as :func:`measured` starts it."""

    def start(took: Any) -> Callable[[], None]:
        p = beam.Pipeline(SparkRunner(spark), options=PipelineOptions(["--streaming"]))
        _ = p | read() | beam.Map(row) | ForeachBatch(took, "sent double")
        result = p.run()
        return lambda: result.cancel() and None

    return start


def of_spark(spark: Any, rate: int) -> Any:
    """A query of Structured Streaming, likewise."""

    def start(took: Any) -> Callable[[], None]:
        frame = spark.readStream.format("rate").option("rowsPerSecond", rate).load()
        sent = frame.select(sf.col("timestamp").cast("double").alias("sent"))
        query = sent.writeStream.foreachBatch(took).start()
        return lambda: query.stop() and None

    return start


def idle(spark: Any, folder: str, seconds: float) -> float:
    """The share of a core that a pipeline over an empty folder takes."""

    def used() -> float:
        total = 0.0
        for each in (psutil.Process(), *psutil.Process().children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += sum(each.cpu_times()[:2])
        return total

    read = partial(ReadFromSpark, "text", {"path": folder})
    stop = of_beam(spark, read, lambda row: {"sent": 0.0})(print)
    time.sleep(2 * WARM_UP_SECONDS)
    before = used()
    time.sleep(seconds)
    taken = used() - before
    stop()
    return taken / seconds


def main() -> None:
    """Runs all and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30, help="that each program runs")
    parser.add_argument("--rate", type=int, default=20, help="events a second")
    parser.add_argument("--rounds", type=int, default=2, help="how often both take turns")
    arguments = parser.parse_args()
    spark = started()
    options = {"rowsPerSecond": arguments.rate, "numPartitions": 2}
    rows = partial(ReadFromSpark, "rate", options, timestamp_column="timestamp")
    programs = {
        "sparkbeam": of_beam(spark, rows, lambda row: {"sent": row.timestamp.micros / 1e6}),
        "foreachBatch": of_spark(spark, arguments.rate),
    }
    table = Table("program", "p50, s", "p99, s", "events")
    found: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(arguments.rounds):
        for name, start in programs.items():
            found[name] += measured(start, arguments.seconds)
    for name, waited in found.items():
        half, most = np.percentile(waited, [50, 99])
        table.add_row(name, f"{half:.2f}", f"{most:.2f}", f"{len(waited):,}")
    Console(width=120).print(table)
    with tempfile.TemporaryDirectory() as folder:
        print(f"Idle, a pipeline takes {idle(spark, folder, arguments.seconds):.1%} of a core.")


if __name__ == "__main__":
    main()

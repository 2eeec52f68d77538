"""Nexmark queries over a stream at a fixed rate for a while: do memory and state stay flat?

Run with ``python bench/soak.py --query 3,11 --rate 2000 --minutes 10``. The queries run at the same
time in one session, each over a stream of its own. Time in the events goes as the clock does.
The table has a row for each minute: means of the memory (the JVM's heap after a collection of
garbage), of the entries in the state, which are pages of many keys, and of the time of a
micro-batch. A series is flat if its mean over the last third is at most a tenth
above that over the middle third, or if it is memory and less than 10 MiB above. Ends with 1 if
one is not. All of the JVM's heap is resident from the start. Other options go to the session:
``--spark_conf=key=value``.
"""

import argparse
import logging
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from statistics import fmean
from typing import Any

import apache_beam as beam
import psutil
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from rich.console import Console
from rich.table import Table

from beam_nexmark.configuration import Configuration
from beam_nexmark.peak_memory import resident
from beam_nexmark.queries import QUERIES, Query
from beam_nexmark.stream import NexmarkStream
from sparkbeam import SparkRunner
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.spark import session

MIB = 1 << 20
SAMPLE_SECONDS = 5.0
HEAP_SECONDS = 30.0
GROWTH = 0.1
GROWTH_MIB = 10.0
START_SECONDS = 120.0

Series = dict[str, list[tuple[float, float]]]
"""By name: the seconds since the start, and what was there."""


class Count(beam.DoFn):
    """Counts events."""

    def __init__(self) -> None:
        self._events = Metrics.counter("soak", "events")

    def process(self, event: Any) -> Iterator[Any]:
        """Hands the event on."""
        self._events.inc()
        yield event


class Run:
    """A query that runs.

    Args:
        query: which.
        configuration: of its events.
        rate: how many of them a second.
        spark: the session.
    """

    def __init__(
        self,
        query: Query,
        configuration: Configuration,
        rate: float,
        spark: Any,
    ) -> None:
        self._name = f"q{query.number}"
        self._next = 0
        options = PipelineOptions(["--streaming", "--spark_progress=off"])
        pipeline = beam.Pipeline(runner=SparkRunner(spark), options=options)
        events = pipeline | NexmarkStream(configuration, rate) | "Events" >> beam.ParDo(Count())
        query.build(events, configuration)
        before = {active.id for active in spark.streams.active}
        self.result: Any = pipeline.run()
        until = time.monotonic() + START_SECONDS
        found: list[Any] = []
        while not found:
            if time.monotonic() > until:
                raise TimeoutError(f"{self._name} has not started.")
            time.sleep(0.1)
            found = [active for active in spark.streams.active if active.id not in before]
        (self._query,) = found

    def sample(self) -> Iterator[tuple[str, float]]:
        """What the query has told of itself since the last time."""
        fresh = [p for p in self._query.recentProgress if p["batchId"] >= self._next]
        for progress in fresh:
            self._next = progress["batchId"] + 1
            yield f"{self._name} micro-batch, s", progress["batchDuration"] / 1000
        if fresh:
            operators = fresh[-1]["stateOperators"]
            yield f"{self._name} entries", sum(o["numRowsTotal"] for o in operators)
            size = sum(o["memoryUsedBytes"] for o in operators)
            yield f"{self._name} RocksDB, MiB", size / MIB
        counters = self.result.metrics().query()["counters"]
        yield f"{self._name} events", sum(c.committed for c in counters)


def memory() -> Iterator[tuple[str, float]]:
    """What this process and those below it hold."""
    jvms, workers = 0, 0
    for process in psutil.Process().children(recursive=True):
        try:
            command = process.cmdline()
        except psutil.Error:
            continue
        if process.name() == "java":
            jvms += resident(process)
        elif "sparkbeam.worker.daemon" in command:
            workers += resident(process)
    yield "JVM, MiB", jvms / MIB
    yield "workers, MiB", workers / MIB
    yield "driver, MiB", resident(psutil.Process()) / MIB


def heap(spark: Any) -> Iterator[tuple[str, float]]:
    """What is alive in the JVM."""
    runtime = spark._jvm.java.lang.Runtime.getRuntime()
    runtime.gc()
    yield "JVM's heap, MiB", (runtime.totalMemory() - runtime.freeMemory()) / MIB


def watched(runs: list[Run], spark: Any, seconds: float) -> Series:
    """Samples of all series while the queries run."""
    series: Series = defaultdict(list)
    start = time.monotonic()
    heap_at = 0.0
    while (now := time.monotonic() - start) < seconds:
        sources = [memory(), *(run.sample() for run in runs)]
        if now >= heap_at:
            heap_at = now + HEAP_SECONDS
            sources.append(heap(spark))
        for source in sources:
            for name, value in source:
                series[name].append((now, value))
        for run in runs:
            if run.result.state != "RUNNING":
                run.result.wait_until_finish()
                raise RuntimeError("A query has ended early.")
        time.sleep(SAMPLE_SECONDS)
    return series


def show(series: Series, minutes: int) -> None:
    """Prints the means of each minute; of events, how many there have been at its end."""
    table = Table("minute", *series)
    for minute in range(minutes):
        row = []
        for name, samples in series.items():
            found = [value for at, value in samples if minute <= at / 60 < minute + 1]
            value = (max if name.endswith(" events") else fmean)(found or [0.0])
            row.append(f"{value:.2f}" if name.endswith(", s") else f"{value:,.0f}")
        table.add_row(str(minute + 1), *row)
    Console(width=200).print(table)


def is_flat(name: str, samples: list[tuple[float, float]], seconds: float) -> bool:
    """Compares the last third with the middle third, and says so."""
    middle = fmean(value for at, value in samples if seconds / 3 <= at < seconds * 2 / 3)
    last = fmean(value for at, value in samples if at >= seconds * 2 / 3)
    slack = max(GROWTH * middle, GROWTH_MIB if name.endswith(", MiB") else 0.0)
    flat = last <= middle + slack
    verdict = "flat" if flat else "GROWS"
    print(f"{name}: {middle:,.2f} in the middle third, {last:,.2f} in the last: {verdict}")
    return flat


def main() -> None:
    """Runs the queries, prints the table and the verdict."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--query", default="3,11", help="numbers with commas between them")
    parser.add_argument("--rate", type=int, default=2000, help="events a second for each query")
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--waiting", type=int, default=60, help="s; query 3 keeps quiet sellers")
    arguments, options = parser.parse_known_args()
    logging.disable(logging.WARNING)
    seconds = arguments.minutes * 60.0
    configuration = Configuration(
        # More than are needed, so that no query ends before it is stopped.
        events=2 * arguments.rate * int(seconds + START_SECONDS),
        event_rate=arguments.rate,
        max_auctions_waiting_time=arguments.waiting,
    )
    java = "-Xms1g -XX:+AlwaysPreTouch"
    master = [
        "--spark_master=local[2]",
        "--spark_conf=spark.driver.memory=1g",
        f"--spark_conf=spark.driver.extraJavaOptions={java}",
    ]
    spark = session.obtain(SparkBeamOptions([*master, *options]))
    runs = [
        Run(QUERIES[int(number)], configuration, arguments.rate, spark)
        for number in arguments.query.split(",")
    ]
    try:
        series = watched(runs, spark, seconds)
    finally:
        for run in runs:
            run.result.cancel()
    spark.stop()
    show(series, arguments.minutes)
    steady = [
        is_flat(name, samples, seconds)
        for name, samples in series.items()
        if not name.endswith(" events")
    ]
    if not all(steady):
        sys.exit("Something grows.")
    print("All is flat.")


if __name__ == "__main__":
    main()

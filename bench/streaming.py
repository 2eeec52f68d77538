"""Streaming speed: sparkbeam beside what a user would write with Structured Streaming itself.

Run with ``python bench/streaming.py``. All contestants run one after the other in one session on
two cores, or in turns (``--rounds``), as a JVM takes a while to compile what it runs. One of them
is sparkbeam with its state through pandas, as on Spark 4.0. They read Spark's source
``rate-micro-batch``, whose micro-batches have a fixed number of rows and come as fast as they are
taken. The time of a micro-batch is what Spark says (``triggerExecution``); the
table has the median of those after the first ones.
"""

import argparse
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import apache_beam as beam
import pandas as pd
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.transforms.window import FixedWindows, Sessions, TimestampedValue
from contest import Times, draw
from pyspark.sql import Row
from pyspark.sql import functions as sf
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from rich.console import Console
from rich.table import Table

from sparkbeam import SparkRunner
from sparkbeam.io import ReadFromSpark
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.spark import session
from sparkbeam.streaming import execution
from sparkbeam.upstream.spark import has_row_state

KEYS = 50_000
ROWS = 200_000
FEW = 10
RATE = 200_000
WINDOW_SECONDS = 10
GAP_SECONDS = 0.2
SPREAD = 1000
WARM_UPS = 2
PARTITIONS = 2
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Figures(NamedTuple):
    """What Spark says of a query.

    Attributes:
        seconds: of each micro-batch, after the first ones.
        rows: that each of them had.
        span: seconds of the clock from the first to the last of them.
    """

    seconds: list[float]
    rows: list[int]
    span: float

    @property
    def per_second(self) -> float:
        """The rows per second of the clock."""
        return sum(self.rows[:-1]) / self.span


class Bench:
    """Runs the contestants.

    Args:
        spark: the session.
        batches: how many micro-batches are measured.
        source: a part of Spark's description of the source whose rows count.
    """

    def __init__(self, spark: Any, batches: int, source: str = "rate") -> None:
        self._spark = spark
        self._batches = batches
        self._source = source

    def beam(
        self, build: Callable[[Any], Any], source: Any, *more: str, seconds: float | None = None
    ) -> Figures:
        """Runs what ``build`` makes of the rows of a source, as a pipeline with more options."""
        options = PipelineOptions(["--streaming", *more])
        p = beam.Pipeline(SparkRunner(self._spark), options=options)
        build(p | source)
        result = p.run()
        while not self._spark.streams.active:
            time.sleep(0.1)
        (query,) = self._spark.streams.active
        try:
            return self._figures(query, seconds)
        finally:
            result.cancel()

    def in_pandas(self, build: Callable[[Any], Any], source: ReadFromSpark) -> Figures:
        """Does the same with state that passes through pandas."""
        with mock.patch.object(execution, "has_row_state", return_value=False):
            return self.beam(build, source)

    def spark(
        self, build: Callable[[Any], Any], options: dict[str, Any], mode: str = "update"
    ) -> Figures:
        """Runs what ``build`` makes of the DataFrame of such a source, as a query."""
        reader = self._spark.readStream.format("rate-micro-batch").options(**options)
        return self.query(build(reader.load().withColumn("key", sf.col("value") % KEYS)), mode)

    def query(self, frame: Any, mode: str) -> Figures:
        """Runs a streaming DataFrame as a query."""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
            query = (
                frame.writeStream.format("noop")
                .outputMode(mode)
                .option("checkpointLocation", checkpoint)
                .start()
            )
            try:
                return self._figures(query, None)
            finally:
                query.stop()

    def _figures(self, query: Any, seconds: float | None) -> Figures:
        found: dict[int, Any] = {}
        deadline = None if seconds is None else time.monotonic() + seconds
        # The rate of a stream is that between two micro-batches at least.
        while deadline is None or time.monotonic() < deadline or len(found) < WARM_UPS + 2:
            error = query.exception()
            if error is not None:
                raise error
            found |= {p["batchId"]: p for p in query.recentProgress if self._rows(p)}
            if deadline is None and len(found) >= WARM_UPS + self._batches:
                break
            time.sleep(0.2)
        measured = [found[number] for number in sorted(found)[WARM_UPS:]]
        starts = [pd.Timestamp(p["timestamp"]).timestamp() for p in measured]
        taken = [p["durationMs"]["triggerExecution"] / 1000 for p in measured]
        return Figures(taken, [self._rows(p) for p in measured], starts[-1] - starts[0])

    def _rows(self, progress: Any) -> int:
        """The rows of a micro-batch that are not the runner's own."""
        sources = progress["sources"]
        return sum(s["numInputRows"] for s in sources if self._source in s["description"].lower())


def batches_of(rows: int) -> dict[str, Any]:
    """The options of a source whose micro-batches have so many rows, a second each."""
    return {
        "rowsPerBatch": rows,
        "numPartitions": PARTITIONS,
        "advanceMillisPerBatch": 1000,
        "startTimestamp": 0,
    }


def reading(rows: int) -> ReadFromSpark:
    """The same for a pipeline."""
    return ReadFromSpark(
        "rate-micro-batch", batches_of(rows), columns=["value"], timestamp_column="timestamp"
    )


class RunningCount(beam.DoFn):
    """Counts the elements of each key."""

    COUNT = ReadModifyWriteStateSpec("count", beam.coders.VarIntCoder())

    def process(
        self, element: tuple[int, int], count: Any = beam.DoFn.StateParam(COUNT)
    ) -> Iterator[tuple[int, int]]:
        """Gives the count so far."""
        total = (count.read() or 0) + 1
        count.write(total)
        yield element[0], total


def running_count(rows: Any) -> Any:
    """A count per key that goes on for ever, in a stateful DoFn."""
    pairs = beam.Map(lambda row: (row.value % KEYS, 1)).with_output_types(tuple[int, int])
    return rows | pairs | beam.ParDo(RunningCount())


class CountProcessor(StatefulProcessor):
    """The same for ``transformWithState``."""

    def init(self, handle: Any) -> None:
        """Makes the state."""
        self._count = handle.getValueState("count", "count bigint")

    def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Iterator[Row]:
        """Gives the count so far."""
        before = self._count.get()
        count = (before[0] if before else 0) + sum(1 for _ in rows)
        self._count.update((count,))
        yield Row(key=key[0], count=count)

    def close(self) -> None:
        """There is nothing to close."""


def with_state(frame: Any) -> Any:
    """``transformWithState``."""
    return frame.groupBy("key").transformWithState(
        CountProcessor(), "key bigint, count bigint", "Update", "none"
    )


def with_pandas(frame: Any) -> Any:
    """``applyInPandasWithState``."""

    def count(key: Any, parts: Iterator[Any], state: Any) -> Iterator[Any]:
        before = state.get[0] if state.exists else 0
        total = before + sum(len(part) for part in parts)
        state.update((total,))
        yield pd.DataFrame({"key": [key[0]], "count": [total]})

    return frame.groupBy("key").applyInPandasWithState(
        count,
        "key bigint, count bigint",
        "count bigint",
        "update",
        GroupStateTimeout.NoTimeout,
    )


def windowed_count(rows: Any) -> Any:
    """A count per key and window."""
    return (
        rows
        | beam.Map(lambda row: (row.value % KEYS, 1)).with_output_types(tuple[int, int])
        | beam.WindowInto(FixedWindows(WINDOW_SECONDS))
        | beam.CombinePerKey(sum)
    )


def windowed_in_spark(frame: Any) -> Any:
    """Spark's own aggregation, in the JVM."""
    window = sf.window("timestamp", f"{WINDOW_SECONDS} seconds")
    return frame.withWatermark("timestamp", "0 seconds").groupBy(window, "key").count()


def sessions(rows: int) -> Callable[[Any], Any]:
    """A count per key and session, of rows with a time of their own within their micro-batch.

    A key has four rows a second on average, and a session ends with half of them.
    """

    def build(read: Any) -> Any:
        timed = read | beam.Map(
            lambda row: TimestampedValue(
                (row.value * row.value // SPREAD % KEYS, 1), row.value / rows
            )
        ).with_output_types(tuple[int, int])
        return timed | beam.WindowInto(Sessions(GAP_SECONDS)) | beam.CombinePerKey(sum)

    return build


def sessions_in_spark(rows: int) -> Callable[[Any], Any]:
    """The same by Spark's own aggregation, in the JVM."""

    def build(frame: Any) -> Any:
        timed = frame.select(
            sf.expr(f"value * value div {SPREAD} % {KEYS}").alias("key"),
            sf.expr(f"timestamp_micros(value * 1000000 div {rows})").alias("time"),
        )
        window = sf.session_window("time", f"{GAP_SECONDS * 1000:.0f} milliseconds")
        return timed.withWatermark("time", "0 seconds").groupBy(window, "key").count()

    return build


def started() -> Any:
    """A session whose queries have as many partitions as cores, and their state in RocksDB."""
    logging.disable(logging.WARNING)
    spark = session.obtain(SparkBeamOptions([f"--spark_master=local[{PARTITIONS}]"]))
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", PROVIDER)
    spark.conf.set("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    spark.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    return spark


def main() -> None:
    """Runs all and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=9, help="micro-batches that are measured")
    parser.add_argument(
        "--rounds",
        type=int,
        default=1,
        help="how often the contestants of a task take turns; of several, the first does not count",
    )
    parser.add_argument("--seconds", type=float, default=60, help="how long the stream flows")
    parser.add_argument("--rows", type=int, default=ROWS, help="in a micro-batch")
    parser.add_argument("--rate", type=int, default=RATE, help="of the stream, a second")
    parser.add_argument("--only", default="", help="tasks whose name has this")
    parser.add_argument("--picture", type=Path, help="an SVG file of box plots")
    arguments = parser.parse_args()
    spark = started()
    bench = Bench(spark, arguments.batches)
    rows, rate = arguments.rows, arguments.rate
    many = batches_of(rows)
    console = Console(width=120, highlight=False)

    console.print(f"[bold]{rows:,} elements, {KEYS:,} keys in a micro-batch[/bold]")
    contests: list[list[tuple[str, str, Callable[[], Figures]]]] = [
        [
            ("running count", "sparkbeam", lambda: bench.beam(running_count, reading(rows))),
            ("", "through pandas", lambda: bench.in_pandas(running_count, reading(rows))),
            *(
                [("", "transformWithState", lambda: bench.spark(with_state, many))]
                if has_row_state(spark)
                else []
            ),
            ("", "applyInPandasWithState", lambda: bench.spark(with_pandas, many)),
        ],
        [
            ("windowed count", "sparkbeam", lambda: bench.beam(windowed_count, reading(rows))),
            ("", "through pandas", lambda: bench.in_pandas(windowed_count, reading(rows))),
            ("", "Spark's aggregation", lambda: bench.spark(windowed_in_spark, many)),
        ],
        [
            ("sessions", "sparkbeam", lambda: bench.beam(sessions(rows), reading(rows))),
            ("", "through pandas", lambda: bench.in_pandas(sessions(rows), reading(rows))),
            (
                "",
                "Spark's aggregation",
                lambda: bench.spark(sessions_in_spark(rows), many, "append"),
            ),
        ],
    ]
    table = Table("task", "program", "s a micro-batch", "keys/s", "relative to sparkbeam")
    every: list[Times] = []
    for contest in contests:
        if arguments.only not in contest[0][0]:
            continue
        name = f"{contest[0][0]}, {rows:,} elements in a micro-batch"
        times = [Times(name, program, []) for _, program, _ in contest]
        for number in range(arguments.rounds):
            for one, (_, program, run) in zip(times, contest, strict=True):
                seconds = run().seconds
                print(program, seconds, file=sys.stderr, flush=True)
                if number or arguments.rounds == 1:
                    one.seconds.extend(seconds)
        every += times
        for one, (task, program, _) in zip(times, contest, strict=True):
            ratio = one.median / times[0].median
            figures = f"{one.median:.2f}", f"{KEYS / one.median:,.0f}", f"{ratio:.2f}x"
            table.add_row(task, program, *figures)
    console.print(table)
    if arguments.picture:
        draw(every, arguments.picture)

    few = bench.beam(windowed_count, reading(FEW))
    console.print(
        f"A micro-batch of {FEW} elements with 2 layers: median "
        f"{statistics.median(few.seconds):.2f} s, best {min(few.seconds):.2f} s"
    )
    flow = ReadFromSpark("rate", {"rowsPerSecond": rate, "numPartitions": PARTITIONS})
    steady = bench.beam(windowed_count, flow, seconds=arguments.seconds)
    console.print(
        f"A stream of {rate:,} elements a second: {steady.per_second:,.0f} processed a second for "
        f"{arguments.seconds:.0f} s, micro-batches of {statistics.median(steady.rows):,.0f} "
        f"elements in {statistics.median(steady.seconds):.2f} s"
    )


if __name__ == "__main__":
    main()

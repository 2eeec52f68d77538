"""Speed of Kafka in streaming: ReadFromKafka beside Spark's own program, windows and a count.

Run with ``python bench/kafka.py``. It starts a broker, fills a topic with records of 100 bytes,
and lets both contestants count them by key in windows of ten seconds, in turns, in one session on
two cores. Each takes the topic in micro-batches of the same size; the time of a micro-batch is
what Spark says (``triggerExecution``), and the first ones of a round do not count, nor does the
first of several rounds, as a JVM takes a while to compile what it runs.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyspark
from apache_beam.io.kafka import ReadFromKafka
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows
from pyspark.sql import functions as sf

from sparkbeam import SparkRunner
from sparkbeam.common.maven_packages import package_for
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.spark import session

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from broker import Broker

PACKAGE = package_for("kafka", pyspark.__version__)
TOPIC = "clicks"
PARTITIONS = 4
KEYS = 1000
SECONDS = 600
WARM_UPS = 2
_BATCH_SECONDS = 600


class Bench:
    """Runs the contestants.

    Args:
        spark: the session.
        address: of the broker.
        rows: of a micro-batch.
        batches: how many micro-batches of a round are measured.
    """

    def __init__(self, spark: Any, address: str, rows: int, batches: int) -> None:
        self._spark = spark
        self._address = address
        self._rows = rows
        self._batches = batches

    def fill(self) -> None:
        """Writes the records, with create times over ten minutes of an hour ago."""
        count = self._rows * (WARM_UPS + self._batches + 1)
        start = int(time.time()) - 3600
        first = self._spark.range(0, count, numPartitions=8).selectExpr(
            f"CAST(id % {KEYS} AS STRING) AS key",
            "CAST(rpad(CAST(id AS STRING), 100, '.') AS BINARY) AS value",
            f"timestamp_seconds({start} + id * {SECONDS} / {count}) AS timestamp",
        )
        sink = first.write.format("kafka").option("kafka.bootstrap.servers", self._address)
        sink.option("topic", TOPIC).save()

    def beam(self) -> float:
        """Records per second of a pipeline."""
        config = {"bootstrap.servers": self._address, "auto.offset.reset": "earliest"}
        options = PipelineOptions(["--streaming", f"--max_batch_elements={self._rows}"])
        pipeline = beam.Pipeline(SparkRunner(self._spark), options=options)
        _ = (
            pipeline
            | ReadFromKafka(config, [TOPIC], timestamp_policy=ReadFromKafka.create_time_policy)
            | beam.Map(lambda record: (record[0], 1))
            | beam.WindowInto(FixedWindows(10))
            | beam.CombinePerKey(sum)
        )
        result = pipeline.run()
        try:
            return self._rate()
        finally:
            result.cancel()

    def spark(self) -> float:
        """Records per second of a query of Structured Streaming."""
        reader = self._spark.readStream.format("kafka").options(
            subscribe=TOPIC, startingOffsets="earliest", maxOffsetsPerTrigger=self._rows
        )
        counts = (
            reader.option("kafka.bootstrap.servers", self._address)
            .load()
            .withWatermark("timestamp", "0 seconds")
            .groupBy(sf.window("timestamp", "10 seconds"), "key")
            .count()
        )
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
            writer = counts.writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.outputMode("append").start()
            try:
                return self._rate()
            finally:
                query.stop()

    def _rate(self) -> float:
        """Records per second of the query that runs now."""
        deadline = time.monotonic() + _BATCH_SECONDS
        found: dict[int, Any] = {}
        while len(found) < WARM_UPS + self._batches:
            assert time.monotonic() < deadline, "too slow"
            for query in self._spark.streams.active:
                error = query.exception()
                if error is not None:
                    raise error
                found |= {p["batchId"]: p for p in query.recentProgress if _records(p)}
            time.sleep(0.1)
        measured = [found[number] for number in sorted(found)[WARM_UPS:]]
        millis = sum(each["durationMs"]["triggerExecution"] for each in measured)
        return sum(map(_records, measured)) / millis * 1000


def _records(progress: Any) -> int:
    """The records that a micro-batch has read from Kafka."""
    sources = progress["sources"]
    return sum(s["numInputRows"] for s in sources if s["description"].startswith("Kafka"))


def main() -> None:
    """Runs all rounds, and prints the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="of a micro-batch")
    parser.add_argument("--batches", type=int, default=5, help="that are measured in a round")
    parser.add_argument("--rounds", type=int, default=6)
    given = parser.parse_args()
    options = SparkBeamOptions(
        [
            "--spark_master=local[2]",
            f"--spark_conf=spark.jars.packages={PACKAGE}",
            "--spark_conf=spark.sql.shuffle.partitions=2",
            "--spark_conf=spark.ui.enabled=false",
        ]
    )
    spark = session.obtain(options)
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker(Path(folder), PARTITIONS) as broker,
    ):
        bench = Bench(spark, broker.address, given.rows, given.batches)
        bench.fill()
        contestants: dict[str, Callable[[], float]] = {
            "sparkbeam": bench.beam,
            "Spark": bench.spark,
        }
        rates: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(given.rounds):
            for name, run in contestants.items():
                rates[name].append(run())
                print(f"{name}: {rates[name][-1]:,.0f} records/s", flush=True)
    ours, theirs = (statistics.median(rates[name][1:] or rates[name]) for name in contestants)
    print(
        f"median: sparkbeam {ours:,.0f}, Spark {theirs:,.0f} records/s, ratio {ours / theirs:.2f}"
    )


if __name__ == "__main__":
    main()

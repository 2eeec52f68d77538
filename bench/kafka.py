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
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyspark
from apache_beam.io.kafka import ReadFromKafka
from apache_beam.transforms.window import FixedWindows
from pyspark.sql import functions as sf
from streaming import WARM_UPS, Bench, Figures

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


class Contest:
    """The contestants over a topic.

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
        self._count = rows * (WARM_UPS + batches + 1)
        self._bench = Bench(spark, batches, "kafka")

    def fill(self) -> None:
        """Writes the records, with create times over ten minutes of an hour ago."""
        start = int(time.time()) - 3600
        first = self._spark.range(0, self._count, numPartitions=8).selectExpr(
            f"CAST(id % {KEYS} AS STRING) AS key",
            "CAST(rpad(CAST(id AS STRING), 100, '.') AS BINARY) AS value",
            f"timestamp_seconds({start} + id * {SECONDS} / {self._count}) AS timestamp",
        )
        sink = first.write.format("kafka").option("kafka.bootstrap.servers", self._address)
        sink.option("topic", TOPIC).save()

    def beam(self) -> Figures:
        """Counts by a pipeline."""
        config = {"bootstrap.servers": self._address, "auto.offset.reset": "earliest"}
        read = ReadFromKafka(config, [TOPIC], timestamp_policy=ReadFromKafka.create_time_policy)
        return self._bench.beam(counted, read, f"--max_batch_elements={self._rows}")

    def spark(self) -> Figures:
        """Counts by a query of Structured Streaming."""
        reader = self._spark.readStream.format("kafka").options(
            subscribe=TOPIC, startingOffsets="earliest", maxOffsetsPerTrigger=self._rows
        )
        rows = reader.option("kafka.bootstrap.servers", self._address).load()
        timed = rows.withWatermark("timestamp", "0 seconds")
        counts = timed.groupBy(sf.window("timestamp", "10 seconds"), "key").count()
        return self._bench.query(counts, "append")


def counted(records: Any) -> Any:
    """The number of records of a key in a window."""
    ones = records | beam.Map(lambda record: (record[0], 1))
    return ones | beam.WindowInto(FixedWindows(10)) | beam.CombinePerKey(sum)


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
        contest = Contest(spark, broker.address, given.rows, given.batches)
        contest.fill()
        contestants = {"sparkbeam": contest.beam, "Spark": contest.spark}
        rates: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(given.rounds):
            for name, run in contestants.items():
                figures = run()
                rates[name].append(sum(figures.rows) / sum(figures.seconds))
                print(f"{name}: {rates[name][-1]:,.0f} records/s", flush=True)
    ours, theirs = (statistics.median(rates[name][1:] or rates[name]) for name in contestants)
    print(
        f"median: sparkbeam {ours:,.0f}, Spark {theirs:,.0f} records/s, ratio {ours / theirs:.2f}"
    )


if __name__ == "__main__":
    main()

"""A long stream with all that observes it switched on: does memory stay flat?

    python bench/longrun.py
    python bench/longrun.py --minutes 2 --rows 20000

A windowed count over small micro-batches, as fast as they are taken, so that some minutes have as
many micro-batches as an hour at the usual pace; time in the events goes by ten seconds with each.
On are what ``observing.py`` has on: the progress on a terminal, the live page with somebody who
looks each second, and pushes over HTTP, to Graphite and to Prometheus, which is scraped, each
second; besides that a step that warns and logs, and a checkpoint with signs of life. The table has
the means of each minute, and below it what is flat, as ``soak.py`` tells it. Ends with 1 if
something grows.
"""

import argparse
import logging
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows
from observers import Observers
from soak import HEAP_SECONDS, SAMPLE_SECONDS, Series, heap, is_flat, memory, show

from sparkbeam import SparkBeamOptions, SparkRunner
from sparkbeam.io import ReadFromSpark
from sparkbeam.spark import session

ADVANCE_MS = 10_000
KEYS = 10_000
NOISE = 1000
_NO_MEMORY = ("micro-batches", "micro-batch, s")


class Noisy(beam.DoFn):
    """Warns, and logs a line that is new each time, of one element in a thousand."""

    def process(self, value: int) -> Iterator[int]:
        """Hands the element on."""
        if value % NOISE == 0:
            warnings.warn(f"odd {value % 7}", stacklevel=1)
            logging.getLogger("longrun").warning("value %d", value)
        yield value % KEYS


def started(spark: Any, observers: Observers, rows: int, checkpoint: str) -> Any:
    """The result of the stream, which runs."""
    options = PipelineOptions(
        [*observers.options, "--streaming", f"--checkpoint_location={checkpoint}"]
    )
    pipeline = beam.Pipeline(SparkRunner(spark), options=options)
    source = ReadFromSpark(
        "rate-micro-batch",
        {
            "rowsPerBatch": rows,
            "numPartitions": 2,
            "advanceMillisPerBatch": ADVANCE_MS,
            "startTimestamp": 0,
        },
        columns=["value"],
        timestamp_column="timestamp",
    )
    _ = (
        pipeline
        | source
        | beam.Map(lambda row: row.value).with_output_types(int)
        | beam.ParDo(Noisy())
        | beam.WindowInto(FixedWindows(60))
        | beam.WithKeys(lambda value: value)
        | beam.combiners.Count.PerKey()
    )
    return pipeline.run()


def watched(result: Any, spark: Any, seconds: float) -> Series:
    """Samples while the stream runs."""
    series: Series = defaultdict(list)
    start = time.monotonic()
    heap_at = 0.0
    while (now := time.monotonic() - start) < seconds:
        if result.state != "RUNNING":
            result.wait_until_finish()
            raise RuntimeError("The stream has ended early.")
        progress = result.progress()
        found = [*memory(), ("micro-batch, s", progress.batch_seconds)]
        found.append(("micro-batches", progress.micro_batch))
        if now >= heap_at:
            heap_at = now + HEAP_SECONDS
            found += heap(spark)
        for name, value in found:
            series[name].append((now, value))
        time.sleep(SAMPLE_SECONDS)
    return series


def main() -> None:
    """Runs the stream, prints the table and the verdict."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=int, default=7)
    parser.add_argument("--rows", type=int, default=5000, help="of a micro-batch")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    java = "-Xms1g -XX:+AlwaysPreTouch"
    spark = session.obtain(
        SparkBeamOptions(
            [
                "--spark_master=local[2]",
                "--spark_conf=spark.driver.memory=1g",
                f"--spark_conf=spark.driver.extraJavaOptions={java}",
            ]
        )
    )
    observers = Observers(1.0)
    seconds = arguments.minutes * 60.0
    try:
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint,
            observers.watching(),
        ):
            result = started(spark, observers, arguments.rows, checkpoint)
            try:
                series = watched(result, spark, seconds)
            finally:
                result.cancel()
        counts = observers.counts()
    finally:
        observers.close()
    show(series, arguments.minutes)
    last = series["micro-batches"][-1][1]
    hours = last * ADVANCE_MS / 3_600_000
    print(f"{last:,.0f} micro-batches, {hours:.1f} hours in the events")
    print(", ".join(f"{count:,} {kind}" for kind, count in counts.items()))
    steady = [
        is_flat(name, samples, seconds)
        for name, samples in series.items()
        if name not in _NO_MEMORY
    ]
    spark.stop()
    if not all(steady):
        sys.exit("Something grows.")
    print("All is flat.")


if __name__ == "__main__":
    main()

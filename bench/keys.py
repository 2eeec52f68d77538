"""What a micro-batch costs that touches few of many keys, beside Spark's own count of them.

Run with ``python bench/keys.py``. The first micro-batch counts each key once; each further one
counts 10,000 random keys. The time is what Spark says (``triggerExecution``), the median of those
after the first ones, and so holds all that a user waits for: reading, the stateful step, the
commit of its state.
"""

import argparse
import random
import statistics
from functools import partial
from typing import Any

import apache_beam as beam
from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table
from streaming import Bench, RunningCount, batches_of, reading, started

TOUCHED = 10_000


def touched(value: int, keys: int) -> list[int]:
    """The keys of the element with this number: at first, together, all keys; then random ones."""
    if value < TOUCHED:
        return list(range(value, keys, TOUCHED))
    return [random.Random(value).randrange(keys)]


def in_beam(keys: int, rows: Any) -> Any:
    """The count in a stateful DoFn."""

    def pairs(row: Any) -> list[tuple[int, int]]:
        return [(key, 1) for key in touched(row.value, keys)]

    typed = beam.FlatMap(pairs).with_output_types(tuple[int, int])
    return rows | typed | beam.ParDo(RunningCount()) | beam.Filter(lambda pair: pair[1] < 0)


def in_spark(keys: int, frame: Any) -> Any:
    """The count in the JVM, by an aggregation of Spark's."""
    every = sf.sequence("value", sf.lit(keys - 1), sf.lit(TOUCHED))
    one = sf.array(sf.abs(sf.xxhash64("value")) % keys)
    chosen = sf.when(sf.col("value") < TOUCHED, every).otherwise(one)
    return frame.select(sf.explode(chosen).alias("touched")).groupBy("touched").count()


def main() -> None:
    """Runs all and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=15, help="micro-batches that are measured")
    parser.add_argument("--keys", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    arguments = parser.parse_args()
    bench = Bench(started(), arguments.batches)
    table = Table("program", "keys", "s a micro-batch", "relative to the fewest keys")
    contests = {
        "sparkbeam, a stateful DoFn": lambda keys: bench.beam(
            partial(in_beam, keys), reading(TOUCHED)
        ),
        "Spark's aggregation in the JVM": lambda keys: bench.spark(
            partial(in_spark, keys), batches_of(TOUCHED)
        ),
    }
    for program, run in contests.items():
        least = None
        for keys in arguments.keys:
            median = statistics.median(run(keys).seconds)
            least = least or median
            table.add_row(program, f"{keys:,}", f"{median:.2f}", f"{median / least:.2f}x")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()

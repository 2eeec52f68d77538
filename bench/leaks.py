"""Leaks: what many pipelines in one session leave behind, which is to be nothing.

Run with ``python bench/leaks.py``. Pipelines of several kinds run in turn in one session: combines,
side inputs, outputs that are read twice, state, failures, streaming. After a tenth of them, and
after all, it counts processes, threads, open and temporary files, and persisted DataFrames, and
measures memory.
"""

import argparse
import gc
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import apache_beam as beam
import psutil
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.userstate import CombiningValueStateSpec
from apache_beam.transforms.window import FixedWindows
from rich.console import Console
from rich.table import Table

from sparkbeam import SparkRunner
from sparkbeam.errors import PipelineFailed
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.spark import session

MB = 1 << 20
WAIT_SECONDS = 30
LEFT = ("processes", "threads", "open files", "temporary files", "persisted")
"""What there may be no more of than before."""


class Running(beam.DoFn):
    """Numbers the elements of a key."""

    COUNT = CombiningValueStateSpec("count", combine_fn=sum)

    def process(
        self, pair: tuple[int, int], count: Any = beam.DoFn.StateParam(COUNT)
    ) -> Iterator[int]:
        """Gives the number."""
        count.add(1)
        yield count.read()


def combined(p: beam.Pipeline) -> None:
    """A combine."""
    pairs = p | beam.Create(range(1000)) | beam.Map(lambda n: (n % 10, n))
    assert_that(pairs | beam.CombinePerKey(sum) | beam.combiners.Count.Globally(), equal_to([10]))


def shared(p: beam.Pipeline) -> None:
    """An output that two read, and a side input, which are persisted and collected."""
    numbers = p | beam.Create(range(100)) | beam.Reshuffle() | beam.Map(lambda n: n + 1)
    total = numbers | "total" >> beam.CombineGlobally(sum)
    found = numbers | beam.Map(lambda n, total: total - n, total=beam.pvalue.AsSingleton(total))
    assert_that(found | beam.combiners.Count.Globally(), equal_to([100]))


def stateful(p: beam.Pipeline) -> None:
    """State of keys."""
    pairs = p | beam.Create([(n % 3, n) for n in range(30)]) | beam.ParDo(Running())
    assert_that(pairs | beam.CombineGlobally(max), equal_to([10]))


def failing(p: beam.Pipeline) -> None:
    """A step that fails."""
    _ = p | beam.Create([0]) | beam.Reshuffle() | beam.Map(lambda n: 1 // n)


def streaming(p: beam.Pipeline) -> None:
    """A streaming query."""
    numbers = (
        p | TestStream(coder=VarIntCoder()).add_elements([1, 2]).advance_watermark_to_infinity()
    )
    _ = numbers | beam.WindowInto(FixedWindows(10)) | beam.Map(lambda n: (n, n)) | beam.GroupByKey()


KINDS: list[tuple[Callable[[beam.Pipeline], None], list[str]]] = [
    (combined, []),
    (shared, []),
    (stateful, []),
    (failing, []),
    (streaming, ["--streaming"]),
]


def run(spark: Any, first: int, last: int) -> None:
    """Runs the pipelines of these numbers."""
    for number in range(first, last):
        build, flags = KINDS[number % len(KINDS)]
        p = beam.Pipeline(SparkRunner(spark), options=PipelineOptions(flags))
        build(p)
        if build is failing:
            with suppress(PipelineFailed):
                p.run().wait_until_finish()
        else:
            p.run().wait_until_finish()


def counted(spark: Any) -> dict[str, int]:
    """What there is: numbers, and memory in MiB."""
    gc.collect()
    spark.sparkContext._jvm.System.gc()
    own = psutil.Process()
    runtime = spark.sparkContext._jvm.java.lang.Runtime.getRuntime()
    return {
        "processes": len(own.children(recursive=True)),
        "threads": len(threading.enumerate()),
        "open files": own.num_fds(),
        "temporary files": sum(1 for _ in Path(tempfile.gettempdir()).glob("*spark*")),
        "persisted": spark.sparkContext._jsc.getPersistentRDDs().size(),
        "driver, MiB": own.memory_info().rss // MB,
        "heap, MiB": (runtime.totalMemory() - runtime.freeMemory()) // MB,
    }


def settled(spark: Any, before: dict[str, int], names: Sequence[str] = LEFT) -> dict[str, int]:
    """What there is when nothing of ``names`` is more, or after :data:`WAIT_SECONDS`."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        now = counted(spark)
        if all(now[name] <= before[name] for name in names) or time.monotonic() > deadline:
            return now
        time.sleep(1)


def main() -> None:
    """Runs the pipelines and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipelines", type=int, default=200)
    count = parser.parse_args().pipelines
    logging.disable(logging.WARNING)
    spark = session.obtain(SparkBeamOptions(["--spark_master=local[2]"]))
    run(spark, 0, count // 10)
    before = counted(spark)
    run(spark, count // 10, count)
    after = settled(spark, before)
    table = Table("", f"after {count // 10} pipelines", f"after {count}")
    for name in before:
        table.add_row(name, f"{before[name]:,}", f"{after[name]:,}")
    Console().print(table)


if __name__ == "__main__":
    main()

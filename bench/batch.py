"""Batch speed: sparkbeam beside Beam's FnApiRunner and a hand-written RDD program.

Run with ``python bench/batch.py``. All contestants do the same work on the same
machine in one run, in a warm session; the table gives the median of ``--repeat``
runs (ten times as many of the small pipeline) and the ratio to sparkbeam.
``--on cluster`` and ``--on connect`` are other places; Spark Connect has no RDDs.
"""

import argparse
import logging
import operator
import statistics
import time
from collections.abc import Callable
from typing import Any

import apache_beam as beam
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from places import add_place, session_on
from rich.console import Console
from rich.table import Table

from sparkbeam import SparkRunner

SLICES = 100
WARM_UPS = 5


def numbers(pipeline: beam.Pipeline, count: int) -> Any:
    """``count`` integers, generated in the workers."""
    size = count // SLICES
    return (
        pipeline
        | "Slices" >> beam.Create(range(SLICES))
        | "Generate" >> beam.FlatMap(lambda part: range(part * size, (part + 1) * size))
    )


def check(expected: int) -> beam.PTransform:
    """Fails where the one element is not as expected."""

    def same(found: int) -> None:
        assert found == expected, (found, expected)

    return "Check" >> beam.Map(same)


def combine(pipeline: beam.Pipeline, count: int) -> None:
    """Sum per key over 1,000 keys; checks that they are as many."""
    _ = (
        numbers(pipeline, count)
        | "Key" >> beam.Map(lambda x: (x % 1000, x))
        | beam.CombinePerKey(sum)
        | beam.combiners.Count.Globally()
        | check(1000)
    )


def group(pipeline: beam.Pipeline, count: int) -> None:
    """Group over 100,000 keys, then check the sum of the groups' lengths."""
    _ = (
        numbers(pipeline, count)
        | "Key" >> beam.Map(lambda x: (x % 100_000, x))
        | beam.GroupByKey()
        | "Length" >> beam.Map(lambda group: len(group[1]))
        | beam.CombineGlobally(sum)
        | check(count)
    )


def small(pipeline: beam.Pipeline, count: int) -> None:
    """What a unit test does: Create, Map, GroupByKey, assert."""
    groups = (
        pipeline
        | beam.Create([("a", 1), ("b", 2), ("a", 3)])
        | beam.Map(lambda pair: (pair[0], pair[1] + 1))
        | beam.GroupByKey()
        | "Sort" >> beam.MapTuple(lambda key, values: (key, sorted(values)))
    )
    assert_that(groups, equal_to([("a", [2, 4]), ("b", [3])]))


def rdd_combine(spark: Any, count: int) -> None:
    """``reduceByKey`` as a PySpark user writes it."""
    pairs = spark.sparkContext.range(count).map(lambda x: (x % 1000, x))
    assert len(pairs.reduceByKey(operator.add).collect()) == 1000


def rdd_group(spark: Any, count: int) -> None:
    """``groupByKey`` as a PySpark user writes it."""
    pairs = spark.sparkContext.range(count).map(lambda x: (x % 100_000, x))
    assert pairs.groupByKey().map(lambda group: len(group[1])).sum() == count


def run_beam(build: Callable[[beam.Pipeline, int], None], count: int, runner: Any) -> None:
    """Runs a pipeline to its end."""
    with beam.Pipeline(runner=runner) as pipeline:
        build(pipeline, count)


def timed(work: Callable[[], None], repeat: int) -> float:
    """The median time of ``work`` in seconds."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    """Starts Spark for the contest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=5_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", choices=["combine", "group", "small"], default=None)
    parser.add_argument("--sparkbeam_only", action="store_true")
    add_place(parser)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    with session_on(arguments.on) as spark:
        contest(spark, arguments)


def contest(spark: Any, arguments: argparse.Namespace) -> None:
    """Runs the contest in a session and prints the table."""
    count = arguments.elements
    table = Table(title=f"{count:,} elements, 2 cores, median of {arguments.repeat}")
    for column in ("task", "program", "seconds", "elements/s", "relative to sparkbeam"):
        table.add_column(column, justify="left" if column in ("task", "program") else "right")
    contests: dict[str, tuple[Any, Any, int]] = {
        "combine": (combine, rdd_combine, arguments.repeat),
        "group": (group, rdd_group, arguments.repeat),
        "small": (small, None, 10 * arguments.repeat),
    }
    for task, (pipeline, rdd, repeat) in contests.items():
        if arguments.only not in (None, task):
            continue
        for _ in range(WARM_UPS):
            run_beam(pipeline, 1000 * SLICES, SparkRunner(spark))
        programs: dict[str, Callable[..., None]] = {
            "sparkbeam": lambda p=pipeline: run_beam(p, count, SparkRunner(spark))
        }
        if not arguments.sparkbeam_only:
            if rdd is not None and arguments.on != "connect":
                programs["RDD"] = lambda r=rdd: r(spark, count)
            programs["FnApiRunner"] = lambda p=pipeline: run_beam(p, count, FnApiRunner())
        own = None
        for name, program in programs.items():
            seconds = timed(program, repeat)
            own = own or seconds
            rate = "" if pipeline is small else f"{count / seconds:,.0f}"
            table.add_row(task, name, f"{seconds:.2f}", rate, f"{seconds / own:.2f}x")
    Console().print(table)


if __name__ == "__main__":
    main()

"""Batch speed: sparkbeam beside Beam's FnApiRunner and a hand-written RDD program.

Run with ``python bench/batch.py``. All contestants do the same work on the same
machine in one run, in a warm session; the table gives the median of ``--repeat``
runs (ten times as many of small pipelines) and the ratio to sparkbeam.
Text files are also read by polars on one core, in its own process, for scale.
``--on cluster`` and ``--on connect`` are other places; Spark Connect has no RDDs.
"""

import argparse
import json
import logging
import multiprocessing
import operator
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from memory import check
from places import add_place, session_on
from rich.console import Console
from rich.table import Table

from sparkbeam import SparkRunner

SLICES = 100
WARM_UPS = 5
SMALL = ("small", "words")


def numbers(pipeline: beam.Pipeline, count: int) -> Any:
    """``count`` integers, generated in the workers."""
    size = count // SLICES
    return (
        pipeline
        | "Slices" >> beam.Create(range(SLICES))
        | "Generate" >> beam.FlatMap(lambda part: range(part * size, (part + 1) * size))
    )


def combine(pipeline: beam.Pipeline, count: int) -> None:
    """Sum per key over 1,000 keys; checks that they are as many."""
    _ = (
        numbers(pipeline, count)
        | "Key" >> beam.Map(lambda x: (x % 1000, x))
        | beam.CombinePerKey(sum)
        | beam.combiners.Count.Globally()
        | check("result", 1000)
    )


def group(pipeline: beam.Pipeline, count: int) -> None:
    """Group over 100,000 keys, then check the sum of the groups' lengths."""
    _ = (
        numbers(pipeline, count)
        | "Key" >> beam.Map(lambda x: (x % 100_000, x))
        | beam.GroupByKey()
        | "Length" >> beam.Map(lambda group: len(group[1]))
        | beam.CombineGlobally(sum)
        | check("result", count)
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


def words(pipeline: beam.Pipeline, count: int) -> None:
    """Count the words of a small text file into text files, as the first example of many does."""
    given = Path(tempfile.gettempdir(), "words.txt")
    given.write_text("to be or not to be\n" * count)
    _ = (
        pipeline
        | beam.io.ReadFromText(str(given))
        | beam.FlatMap(str.split)
        | beam.combiners.Count.PerElement()
        | beam.MapTuple(lambda word, count: f"{word}: {count}")
        | beam.io.WriteToText(str(given.with_name("counts")))
    )


def rdd_combine(spark: Any, count: int) -> None:
    """``reduceByKey`` as a PySpark user writes it."""
    pairs = spark.sparkContext.range(count).map(lambda x: (x % 1000, x))
    assert len(pairs.reduceByKey(operator.add).collect()) == 1000


def rdd_group(spark: Any, count: int) -> None:
    """``groupByKey`` as a PySpark user writes it."""
    pairs = spark.sparkContext.range(count).map(lambda x: (x % 100_000, x))
    assert pairs.groupByKey().map(lambda group: len(group[1])).sum() == count


class Orders(NamedTuple):
    """Orders in a text file, a line each, and the functions of a user who sums prices.

    Attributes:
        line: the line of an order with these fields.
        parse: parses a line.
        chosen: selects a parsed order by its price.
        pair: the customer and the price of a parsed order.
    """

    line: Callable[[dict[str, Any]], str]
    parse: Callable[[str], Any]
    chosen: Callable[[Any], bool]
    pair: Callable[[Any], tuple[int, int]]


ORDERS = {
    "csv": Orders(
        lambda order: ",".join(map(str, order.values())),
        lambda line: line.split(","),
        lambda fields: int(fields[2]) % 3 > 0,
        lambda fields: (int(fields[1]), int(fields[2])),
    ),
    "json": Orders(
        json.dumps,
        lambda line: json.loads(line),
        lambda order: order["price"] % 3 > 0,
        lambda order: (order["customer"], order["price"]),
    ),
}


def written(kind: str, count: int) -> str:
    """The path of a file of ``count`` orders, which is made if there is none."""
    path = Path(tempfile.gettempdir(), f"{kind}-{count}")
    if not path.exists():
        with path.open("w") as file:
            for n in range(count):
                order = {"id": n, "customer": n * 7919 % 1000, "price": n * 31 % 10_000}
                file.write(ORDERS[kind].line({**order, "item": f"item {n % 97}"}) + "\n")
    return str(path)


def total(count: int) -> int:
    """The sum of the chosen prices among ``count`` orders."""
    prices = np.arange(count) * 31 % 10_000
    return int(prices[prices % 3 > 0].sum())


def sums(kind: str, pipeline: beam.Pipeline, count: int) -> None:
    """Sum per customer over chosen lines; checks their sum."""
    _ = (
        pipeline
        | beam.io.ReadFromText(written(kind, count))
        | "Parse" >> beam.Map(ORDERS[kind].parse)
        | beam.Filter(ORDERS[kind].chosen)
        | "Key" >> beam.Map(ORDERS[kind].pair)
        | beam.CombinePerKey(sum)
        | beam.Values()
        | beam.CombineGlobally(sum)
        | check("result", total(count))
    )


def rdd_sums(kind: str, spark: Any, count: int) -> None:
    """The same as a PySpark user writes it."""
    orders = spark.sparkContext.textFile(written(kind, count)).map(ORDERS[kind].parse)
    pairs = orders.filter(ORDERS[kind].chosen).map(ORDERS[kind].pair)
    assert pairs.reduceByKey(operator.add).values().sum() == total(count)


def in_polars(kind: str, path: str, repeat: int) -> tuple[int, float]:
    """The sum of the same in polars, and the median time in seconds."""
    import polars as pl

    schema = {"id": pl.Int64, "customer": pl.Int64, "price": pl.Int64, "item": pl.String}
    found: list[int] = []

    def run() -> None:
        if kind == "csv":
            rows = pl.scan_csv(path, has_header=False, schema=schema)
        else:
            rows = pl.scan_ndjson(path, schema=schema)
        prices = rows.filter(pl.col("price") % 3 > 0).group_by("customer").agg(pl.sum("price"))
        found.append(int(prices.collect()["price"].sum()))

    run()
    return found[0], timed(run, repeat)


def run_beam(build: Callable[[beam.Pipeline, int], None], count: int, runner: Any) -> None:
    """Runs a pipeline to its end, with a runner that is made for it."""
    with beam.Pipeline(runner=runner()) as pipeline:
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
    parser.add_argument("--lines", type=int, default=2_000_000, help="of text files")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", choices=["combine", "group", *SMALL, *ORDERS], default=None)
    parser.add_argument("--sparkbeam_only", action="store_true")
    add_place(parser)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    os.environ["POLARS_MAX_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as tempfile.tempdir, session_on(arguments.on) as spark:
        contest(spark, arguments)


class Contest(NamedTuple):
    """A task of so many elements, as a pipeline and as a program over RDDs, with its runs."""

    pipeline: Callable[[beam.Pipeline, int], None]
    rdd: Callable[[Any, int], None] | None
    size: int
    repeat: int


def contest(spark: Any, arguments: argparse.Namespace) -> None:
    """Runs the contest in a session and prints the table."""
    table = Table(title=f"2 cores, median of {arguments.repeat}")
    for column in ("task", "program", "seconds", "elements/s", "relative to sparkbeam"):
        table.add_column(column, justify="left" if column in ("task", "program") else "right")
    elements, lines, repeat = arguments.elements, arguments.lines, arguments.repeat
    contests = {
        "combine": Contest(combine, rdd_combine, elements, repeat),
        "group": Contest(group, rdd_group, elements, repeat),
        "small": Contest(small, None, 3, 10 * repeat),
        "words": Contest(words, None, 100, 10 * repeat),
    } | {
        kind: Contest(partial(sums, kind), partial(rdd_sums, kind), lines, repeat)
        for kind in ORDERS
    }
    for task, one in contests.items():
        if arguments.only not in (None, task):
            continue
        for _ in range(WARM_UPS):
            warm = one.size if task in SMALL else 1000 * SLICES
            run_beam(one.pipeline, warm, partial(SparkRunner, spark))
        if task in ORDERS:
            written(task, one.size)
        programs: dict[str, Callable[[], None]] = {
            "sparkbeam": partial(run_beam, one.pipeline, one.size, partial(SparkRunner, spark))
        }
        if not arguments.sparkbeam_only:
            if one.rdd is not None and arguments.on != "connect":
                programs["RDD"] = partial(one.rdd, spark, one.size)
            programs["FnApiRunner"] = partial(run_beam, one.pipeline, one.size, FnApiRunner)
        seconds = {name: timed(program, one.repeat) for name, program in programs.items()}
        if task in ORDERS and not arguments.sparkbeam_only:
            given = task, written(task, one.size), one.repeat
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                found, seconds["polars, one core"] = pool.apply(in_polars, given)
            assert found == total(one.size)
        for name, taken in seconds.items():
            rate, ratio = f"{one.size / taken:,.0f}", f"{taken / seconds['sparkbeam']:.2f}x"
            table.add_row(task, name, f"{taken:.2f}", rate, ratio)
    Console().print(table)


if __name__ == "__main__":
    main()

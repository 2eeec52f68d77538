"""Skewed keys: joins and combines of which half of the elements have one key, beside even ones.

Run with ``python bench/skew.py``. Contestants take turns in one session on two cores. Elements are
made in the workers, by one task for each core. It also tells how long the tasks behind the shuffle
took: the longest one over the one in the middle.
"""

import argparse
import logging
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from rich.console import Console
from rich.table import Table

from sparkbeam import Join, SparkRunner, session
from sparkbeam.options import SparkBeamOptions

CORES = 2
SHARES = 32
ITEMS = 100_000
SEEN = Metrics.counter("bench", "seen")


@dataclass(frozen=True)
class Sales:
    """How many there are, and whether half of them are of one item."""

    count: int
    hot: bool


def sales_of(sales: Sales) -> Callable[[int], Iterator[tuple[int, int, float]]]:
    """Makes a share of the sales: number, item, price."""
    count, hot = sales.count, sales.hot

    def make(share: int) -> Iterator[tuple[int, int, float]]:
        for number in range(share, count, SHARES):
            scattered = number * 2654435761 % (1 << 32)
            item = 7 if hot and scattered & 256 else (scattered >> 9) % ITEMS
            yield number, item, number * 0.5

    return make


def items(share: int) -> Iterator[tuple[int, str]]:
    """Makes a share of the items: number, name."""
    for number in range(share, ITEMS, SHARES):
        yield number, f"{'the name of an item ' * 8}{number:08d}"


def tell(total: int) -> None:
    """Tells how many results there are."""
    SEEN.inc(total)


def made(p: Any, label: str, make: Callable[[int], Any]) -> Any:
    """What all shares make together."""
    shares = p | f"{label}: shares" >> beam.Create(range(SHARES))
    return shares | label >> beam.FlatMap(make)


def joined(p: Any, sales: Sales) -> Any:
    """By Spark's join."""
    sides = {"sales": made(p, "sales", sales_of(sales)), "items": made(p, "items", items)}
    on = {"sales": lambda sale: sale[1], "items": lambda item: item[0]}
    return sides | Join(on=on, broadcast=BROADCAST, result=lambda key, sale, item: sale[2])


def grouped(p: Any, sales: Sales) -> Any:
    """By a CoGroupByKey."""
    left = made(p, "sales", sales_of(sales)) | beam.Map(lambda sale: (sale[1], sale))
    right = made(p, "items", items) | "keyed" >> beam.Map(lambda item: (item[0], item))
    return (left, right) | beam.CoGroupByKey() | beam.FlatMap(_pairs)


def _pairs(group: Any) -> Iterator[float]:
    _, (sales, found) = group
    for sale in sales:
        for _ in found:
            yield sale[2]


def summed(p: Any, sales: Sales) -> Any:
    """A combine of the same keys."""
    pairs = made(p, "sales", sales_of(sales)) | beam.Map(lambda sale: (sale[1], sale[0]))
    return pairs | beam.CombinePerKey(sum)


def filtered(p: Any, sales: Sales) -> Any:
    """With a side that turns out to be small."""
    wanted = made(p, "items", items) | beam.Filter(lambda item: item[0] % 100 == 7)
    sides = {"sales": made(p, "sales", sales_of(sales)), "items": wanted}
    on = {"sales": lambda sale: sale[1], "items": lambda item: item[0]}
    return sides | Join(on=on, result=lambda key, sale, item: sale[2])


BROADCAST = "never"
"""The items would fit; the join is to be one in which both sides are shuffled."""


@dataclass
class Runs:
    """What the runs of a contestant have taken."""

    seconds: list[float] = field(default_factory=list)
    tasks: str = ""
    plan: str = ""
    results: int = 0


def run(spark: Any, build: Callable[[Any, Sales], Any], sales: Sales, runs: Runs) -> None:
    """Runs a contestant once."""
    p = beam.Pipeline(SparkRunner(spark), options=PipelineOptions([]))
    results = build(p, sales) | "count" >> beam.combiners.Count.Globally()
    results | "tell" >> beam.Map(tell)
    begun = time.perf_counter()
    result: Any = p.run()
    result.wait_until_finish()
    runs.seconds.append(time.perf_counter() - begun)
    runs.results = result.metrics().query()["counters"][0].committed
    runs.tasks = task_times(spark, result)
    plan = result.explain().spark
    final = plan.split("Initial Plan")[0]
    runs.plan = next(
        (
            n
            for n in ("BroadcastHashJoin", "SortMergeJoin(skew=true)", "SortMergeJoin")
            if n in final
        ),
        "",
    )


def task_times(spark: Any, result: Any) -> str:
    """Longest and median task of the last stage that has several."""
    store = spark.sparkContext._jsc.sc().statusStore()
    found = ""
    stages = result.summary().stages
    joining = [
        stage for stage in stages if stage.name.startswith(("Join", "CoGroup", "CombinePer"))
    ]
    for stage in joining[-1:]:
        for of_spark in stage.spark:
            tasks = store.taskList(of_spark.id, 0, 10_000)
            times = sorted(tasks.apply(n).duration().get() / 1000 for n in range(tasks.size()))
            if len(times) > 1:
                middle = statistics.median(times)
                times_as_long = times[-1] / max(middle, 1e-3)
                found = f"{times[-1]:.2f} / {middle:.2f} = {times_as_long:.1f} ({len(times)} tasks)"
    return found


def main() -> None:
    """Runs all of them and prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--elements", type=int, default=10_000_000)
    parser.add_argument("--grouped", type=int, default=1_000_000, help="elements for CoGroupByKey")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", default="", help="a pattern of names")
    parser.add_argument("--conf", action="append", default=[])
    arguments = parser.parse_args()
    logging.getLogger("py4j").setLevel(logging.ERROR)
    spark = session.obtain(
        SparkBeamOptions(
            [f"--spark_master=local[{CORES}]", *(f"--spark_conf={c}" for c in arguments.conf)]
        )
    )
    even, hot = (Sales(arguments.elements, hot) for hot in (False, True))
    few_even, few_hot = (Sales(arguments.grouped, hot) for hot in (False, True))
    contestants: list[tuple[str, Callable[[Any, Sales], Any], Sales, bool]] = [
        ("Join, even keys", joined, even, True),
        ("Join, half on one key", joined, hot, True),
        ("CoGroupByKey, even keys", grouped, few_even, True),
        ("CoGroupByKey, half on one key", grouped, few_hot, True),
        ("CombinePerKey(sum), even keys", summed, even, True),
        ("CombinePerKey(sum), half on one key", summed, hot, True),
        ("Join of 1 % of the items", filtered, even, True),
        ("Join of 1 % of the items, not adaptive", filtered, even, False),
    ]
    contestants = [c for c in contestants if re.search(arguments.only, c[0])]
    found = {name: Runs() for name, *_ in contestants}
    run(spark, joined, Sales(1000, False), Runs())
    for _ in range(arguments.turns):
        for name, build, sales, adaptive in contestants:
            spark.conf.set("spark.sql.adaptive.enabled", str(adaptive).lower())
            run(spark, build, sales, found[name])
            print(
                name, found[name].seconds[-1], found[name].tasks, found[name].plan, file=sys.stderr
            )
    table = Table("contestant", "elements", "s", "longest task / median", "join", "results")
    for name, _, sales, _ in contestants:
        runs = found[name]
        table.add_row(
            name,
            f"{sales.count:,}",
            f"{statistics.median(runs.seconds):.2f}",
            runs.tasks,
            runs.plan,
            f"{runs.results:,}",
        )
    Console(width=160).print(table)


if __name__ == "__main__":
    main()

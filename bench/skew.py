"""Skewed keys: joins and combines of which half of the elements have one key, beside even ones.

Run with ``python bench/skew.py``. Contestants take turns in one session on two cores. Elements are
made in the workers, by one task for each core, or they are the rows of tables, which are written
to Parquet once. It also tells how long the tasks behind the shuffle took: the longest one over the
one in the middle.
"""

import argparse
import logging
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.window import GlobalWindows
from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

from sparkbeam import Join, SparkRunner
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.spark import session

CORES = 2
SHARES = 32
FILES = 8
ITEMS = 100_000
SEEN = Metrics.counter("bench", "seen")


@dataclass(frozen=True)
class Sales:
    """How many there are, whether half of them are of one item, and the folder of their tables."""

    count: int
    hot: bool
    folder: Path | None = None

    @property
    def table(self) -> Path:
        """Where they are as a table."""
        assert self.folder is not None
        return self.folder / f"{self.count}{'-hot' * self.hot}"

    @property
    def items(self) -> Path:
        """Where the items are as a table."""
        assert self.folder is not None
        return self.folder / "items"


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


def joined(p: Any, sales: Sales, *, few: bool = False) -> Any:
    """By Spark's join, with all items or with few; all would fit, but are not to be broadcast."""
    sides = {"sales": made(p, "sales", sales_of(sales)), "items": made(p, "items", items)}
    if few:
        sides["items"] |= beam.Filter(lambda item: item[0] % 100 == 7)
    on = {"sales": lambda sale: sale[1], "items": lambda item: item[0]}
    broadcast = "auto" if few else "never"
    return sides | Join(on=on, broadcast=broadcast, result=lambda key, sale, item: sale[2])


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


def counted(p: Any, sales: Sales) -> Any:
    """The same behind a trigger that counts elements."""
    pairs = made(p, "sales", sales_of(sales)) | beam.Map(lambda sale: (sale[1], sale[0]))
    windows = beam.WindowInto(
        GlobalWindows(),
        trigger=Repeatedly(AfterCount(2)),
        accumulation_mode=AccumulationMode.DISCARDING,
    )
    return pairs | windows | beam.CombinePerKey(sum)


def written(spark: Any, every: list[Sales]) -> None:
    """Writes the tables of sales and items, once each."""
    for sales in every:
        number = sf.col("id")
        scattered = number * sf.lit(2654435761) % (1 << 32)
        of_any = sf.shiftright(scattered, 9) % ITEMS
        is_hot = sf.lit(sales.hot) & (scattered.bitwiseAND(sf.lit(256)) != 0)
        item = sf.when(is_hot, sf.lit(7)).otherwise(of_any).cast("long")
        columns = number.alias("number"), item.alias("item"), (number * 0.5).alias("price")
        _write(spark.range(0, sales.count, 1, FILES).select(*columns), sales.table)
    name = sf.concat(
        sf.repeat(sf.lit("the name of an item "), 8), sf.format_string("%08d", sf.col("id"))
    )
    items = spark.range(0, ITEMS, 1, 1).select(sf.col("id").alias("number"), name.alias("name"))
    _write(items, every[0].items)


def _write(rows: Any, folder: Path) -> None:
    if not folder.exists():
        rows.write.parquet(str(folder))


def read(p: Any, label: str, table: Path) -> Any:
    """The rows of a table."""
    return p | label >> beam.io.ReadFromParquet(f"{table}/*.parquet")


def tables_joined(p: Any, sales: Sales, *, few: bool = False) -> Any:
    """The same of the rows of tables."""
    sides = {"sales": read(p, "sales", sales.table), "items": read(p, "items", sales.items)}
    if few:
        sides["items"] |= beam.Filter(lambda item: item["number"] % 100 == 7)
    on = {"sales": "item", "items": "number"}
    broadcast = "auto" if few else "never"
    return sides | Join(on=on, broadcast=broadcast, result=lambda key, sale, item: sale["price"])


@dataclass
class Runs:
    """What the runs of a contestant have taken."""

    seconds: list[float] = field(default_factory=list)
    tasks: str = ""
    plan: str = ""
    results: int = 0


def run(
    spark: Any, build: Callable[[Any, Any], Any], data: Any, *options: str
) -> tuple[float, Any]:
    """Runs a pipeline over data once; gives the seconds, and the result."""
    p = beam.Pipeline(SparkRunner(spark), options=PipelineOptions([*options]))
    results = build(p, data) | "count" >> beam.combiners.Count.Globally()
    results | "tell" >> beam.Map(tell)
    begun = time.perf_counter()
    result = p.run()
    result.wait_until_finish()
    return time.perf_counter() - begun, result


def join_of(result: Any) -> str:
    """The join in the last form of each adaptive plan, below which stands the first one."""
    plan = result.explain().spark
    final = "".join(part.split("Initial Plan")[0] for part in plan.split("Final Plan"))
    joins = "BroadcastHashJoin", "SortMergeJoin(skew=true)", "SortMergeJoin"
    return next((name for name in joins if name in final), "")


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


Contestant = tuple[str, Callable[[Any, Sales], Any], Sales, bool]
"""Its name, what builds it, of which sales, and whether Spark may change its mind."""


def contestants(elements: int, grouped_elements: int, folder: Path) -> list[Contestant]:
    """All of them."""
    even, hot = (Sales(elements, hot, folder) for hot in (False, True))
    few_even, few_hot = (Sales(grouped_elements, hot) for hot in (False, True))
    few_of_tables = partial(tables_joined, few=True)
    return [
        ("Join, even keys", joined, even, True),
        ("Join, half on one key", joined, hot, True),
        ("CoGroupByKey, even keys", grouped, few_even, True),
        ("CoGroupByKey, half on one key", grouped, few_hot, True),
        ("CombinePerKey(sum), even keys", summed, even, True),
        ("CombinePerKey(sum), half on one key", summed, hot, True),
        ("CombinePerKey(sum) behind AfterCount, even keys", counted, even, True),
        ("CombinePerKey(sum) behind AfterCount, half on one key", counted, hot, True),
        ("Join of 1 % of the items, not adaptive", partial(joined, few=True), even, False),
        ("Join of 1 % of the items", partial(joined, few=True), even, True),
        ("Join of tables, even keys", tables_joined, even, True),
        ("Join of tables, half on one key", tables_joined, hot, True),
        ("Join of tables, 1 % of the items, not adaptive", few_of_tables, even, False),
        ("Join of tables, 1 % of the items", few_of_tables, even, True),
    ]


def parsed() -> argparse.Namespace:
    """What the command says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--elements", type=int, default=10_000_000)
    parser.add_argument("--grouped", type=int, default=1_000_000, help="elements for CoGroupByKey")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--tables", type=Path, help="a folder for the tables, which is kept")
    parser.add_argument("--columns", choices=("auto", "off"), default="auto")
    parser.add_argument("--only", default="", help="a pattern of names")
    parser.add_argument("--conf", action="append", default=[])
    return parser.parse_args()


def main() -> None:
    """Runs all of them and prints a table."""
    arguments = parsed()
    logging.getLogger("py4j").setLevel(logging.ERROR)
    spark = session.obtain(
        SparkBeamOptions(
            [f"--spark_master=local[{CORES}]", *(f"--spark_conf={c}" for c in arguments.conf)]
        )
    )
    with tempfile.TemporaryDirectory(prefix="skew-") as temporary:
        folder = arguments.tables or Path(temporary)
        every = contestants(arguments.elements, arguments.grouped, folder)
        chosen = [one for one in every if re.search(arguments.only, one[0])]
        tables = [sales for name, _, sales, _ in chosen if "tables" in name]
        if tables:
            written(spark, tables)
        found = taken_in_turns(spark, chosen, arguments)
    shown(chosen, found)


def taken_in_turns(
    spark: Any, chosen: list[Contestant], arguments: argparse.Namespace
) -> dict[str, Runs]:
    """What contestants take, by name."""
    found = {name: Runs() for name, *_ in chosen}
    columns = f"--columns={arguments.columns}"
    run(spark, joined, Sales(1000, False), columns)
    for _ in range(arguments.turns):
        for name, build, sales, adaptive in chosen:
            spark.conf.set("spark.sql.adaptive.enabled", str(adaptive).lower())
            runs = found[name]
            seconds, result = run(spark, build, sales, columns)
            runs.seconds.append(seconds)
            runs.results = result.metrics().query()["counters"][0].committed
            runs.tasks, runs.plan = task_times(spark, result), join_of(result)
            print(name, runs.seconds[-1], runs.tasks, runs.plan, file=sys.stderr)
    return found


def shown(chosen: list[Contestant], found: dict[str, Runs]) -> None:
    """Prints the table."""
    table = Table("contestant", "elements", "s", "longest task / median", "join", "results")
    for name, _, sales, _ in chosen:
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

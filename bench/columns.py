"""Batch over columns: pipelines over Parquet beside themselves without columns, and beside Spark.

Run with ``python bench/columns.py``; ``--on cluster`` and ``--on connect`` are other places.
Nexmark's bids are written to Parquet once. Then, in one session on two cores, the contestants of
each task take turns: a Beam pipeline whose functions run over columns, the same with
``--columns=off``, and what a user of Spark would write. Each counts its results and adds them up;
Spark joins sessions that touch, and so has fewer. Some tasks are about sales: a table that is made
of the bids, with columns of more types and with nulls. Others parse bids that are JSON in a column
of bytes; ``called`` is the same with an argument of ``json.loads`` that changes nothing but has it
called. ``passed`` is a Spark program that only
hands three columns to Python, which counts their rows.
"""

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam import coders
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from contest import Times, draw, in_turns
from memory import worker_peaks
from places import add_place, session_on
from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

from beam_nexmark.beam_source import NexmarkEvents
from beam_nexmark.datasource import NexmarkDataSource
from beam_nexmark.queries.selection import bids
from sparkbeam import SparkRunner
from sparkbeam.io import ReadFromSpark

GAP = WINDOW = 10
MINUTE, HOUR = 60, 3600
GROUPS = 1000


@dataclass(frozen=True)
class Task:
    """What is to be computed.

    Attributes:
        name: in words.
        build: the numbers of the results, of bids, in Beam.
        query: a DataFrame whose column ``number`` has the same.
        read: reads the bids of a folder, of so many events.
        table: the table that it is about, ``bids``, ``sales`` or ``json``.
        joins: Spark joins sessions that touch, and so has other results.
        called: what builds the same for the contestant of that name.
    """

    name: str
    build: Callable[[Any], Any]
    query: Callable[[Any], Any]
    read: Callable[[str, int], Any] = lambda folder, events: ReadFromSpark(
        "parquet", {"path": folder}, timestamp_column="at"
    )
    table: str = "bids"
    joins: bool = False
    called: Callable[[Any], Any] | None = None


def session_counts(bids: Any) -> Any:
    """Query 11, without its trigger."""
    return (
        bids
        | "bidders" >> beam.Map(lambda bid: bid.bidder)
        | beam.WindowInto(Sessions(GAP))
        | beam.combiners.Count.PerElement()
        | beam.MapTuple(lambda bidder, count: count)
    )


def window_sums(bids: Any) -> Any:
    """The sum of each bidder in ten seconds."""
    pairs = bids | "prices" >> beam.Map(lambda bid: (bid.bidder, bid.price))
    return totals(pairs | beam.WindowInto(FixedWindows(WINDOW)))


def totals(pairs: Any) -> Any:
    """The sum of each key."""
    return pairs | beam.CombinePerKey(sum) | beam.MapTuple(lambda key, total: total)


def group_sums(bids: Any, window_fn: Any) -> Any:
    """What each of a thousand groups of bidders has bid in a window."""
    pairs = bids | "prices" >> beam.Map(lambda bid: (bid.bidder % GROUPS, bid.price))
    return totals(pairs | beam.WindowInto(window_fn))


def in_groups(window_fn: Any, *window: str) -> Task:
    """Sums of groups of bidders, over bids that come sixty times as slowly."""
    return Task(
        f"sum of a group in {' every '.join(window)}",
        lambda bids: group_sums(bids, window_fn),
        lambda bids: bids.groupBy(
            sf.window("slowly", *window), (sf.col("bidder") % GROUPS).alias("group")
        ).agg(sf.sum("price").alias("number")),
        lambda folder, events: ReadFromSpark(
            "parquet", {"path": folder}, timestamp_column="slowly"
        ),
    )


def means(bids: Any) -> Any:
    """The mean price of each auction, in whole cents."""
    return (
        bids
        | "prices"
        >> beam.Map(lambda bid: (bid.auction, bid.price)).with_output_types(tuple[int, int])
        | beam.combiners.Mean.PerKey()
        | beam.MapTuple(lambda auction, mean: int(mean))
    )


def aggregated(bids: Any) -> Any:
    """Sum, mean and maximum of what each bidder has bid."""
    return (
        bids
        | beam.GroupBy("bidder")
        .aggregate_field("price", sum, "total")
        .aggregate_field("price", beam.combiners.MeanCombineFn(), "mean")
        .aggregate_field("price", max, "dearest")
        | "added" >> beam.Map(lambda found: found.total + int(found.mean) + found.dearest)
    )


def few(bids: Any) -> Any:
    """Query 2: the prices of some auctions."""
    return (
        bids
        | beam.Filter(lambda bid: bid.auction % 123 == 0)
        | "prices" >> beam.Map(lambda bid: bid.price)
    )


def branches(bids: Any) -> Any:
    """What each bidder has bid, where the prices of some auctions count twice."""
    once = (
        bids
        | "once" >> beam.Filter(lambda bid: bid.auction % 3 != 0)
        | "prices" >> beam.Map(lambda bid: (bid.bidder, bid.price))
    )
    twice = (
        bids
        | "twice" >> beam.Filter(lambda bid: bid.auction % 3 == 0)
        | "doubled" >> beam.Map(lambda bid: (bid.bidder, 2 * bid.price))
    )
    return totals((once, twice) | beam.Flatten())


def of_branches(bids: Any) -> Any:
    """The same in Spark."""
    once = bids.where("auction % 3 != 0").select("bidder", "price")
    twice = bids.where("auction % 3 = 0").select("bidder", (2 * sf.col("price")).alias("price"))
    return once.union(twice).groupBy("bidder").agg(sf.sum("price").alias("number"))


def of_files(task: Task, time: str = "date_time") -> Task:
    """The same of the dicts that Beam's own reading of Parquet gives.

    Args:
        task: over rows.
        time: the field with the timestamp of each, in milliseconds.
    """

    def build(bids: Any) -> Any:
        return task.build(
            bids
            | "rows"
            >> beam.Map(
                lambda bid: TimestampedValue(
                    beam.Row(bidder=bid["bidder"], price=bid["price"]), bid[time] / 1000
                )
            )
        )

    return replace(
        task,
        name=f"{task.name}, ReadFromParquet",
        build=build,
        read=lambda folder, events: beam.io.ReadFromParquet(f"{folder}/*.parquet"),
    )


def of_sessions(bids: Any) -> Any:
    """Query 11 in Spark."""
    return bids.groupBy(sf.session_window("at", f"{GAP} seconds"), "bidder").agg(
        sf.count("*").alias("number")
    )


class Item(NamedTuple):
    """A bidder, and the category of an item."""

    bidder: int
    category: int | None


def of_sales(
    name: str,
    pair: Callable[[Any], tuple[Any, Any]],
    combine: Any,
    number: Callable[[Any, Any], int],
    keys: str,
    aggregate: str,
    types: Any = None,
) -> Task:
    """The number of each combined key; ``types`` of pairs tell Beam coders that it cannot infer."""

    def build(sales: Any) -> Any:
        pairs = beam.Map(pair) if types is None else beam.Map(pair).with_output_types(types)
        return (
            sales
            | "pair" >> pairs
            | beam.CombinePerKey(combine)
            | "number" >> beam.MapTuple(number)
        )

    def query(sales: Any) -> Any:
        groups = sales.groupBy(*keys.split(", "))
        return groups.agg(sf.expr(aggregate).alias("number"))

    return Task(
        name, build, query, lambda folder, _: ReadFromSpark("parquet", {"path": folder}), "sales"
    )


def fields_of_sales(sales: Any) -> Any:
    """Sum, largest and latest of a bidder in a category, which may be null."""
    return (
        sales
        | beam.GroupBy("bidder", "category")
        .aggregate_field("amount", sum, "total")
        .aggregate_field("amount", max, "largest")
        .aggregate_field("at", max, "latest")
        | "added"
        >> beam.Map(
            lambda found: (
                int(100 * (found.total + found.largest)) + found.latest.micros // 1_000_000
            )
        )
    )


def parsed(text: bytes) -> Any:
    """Parses a text; compiled."""
    return json.loads(text)


def called(text: bytes) -> Any:
    """Parses a text; called."""
    return json.loads(text, strict=True)


def json_sums(rows: Any, parse: Callable[[bytes], Any] = parsed) -> Any:
    """The sum of each bidder in ten seconds, of items that one step reads."""

    def pair(row: Any) -> Any:
        bid = parse(row.value)
        return bid["bidder"], bid["price"]

    return totals(rows | "pair" >> beam.Map(pair) | beam.WindowInto(FixedWindows(WINDOW)))


def json_steps(rows: Any, parse: Callable[[bytes], Any] = parsed) -> Any:
    """The same of whole objects, which a step hands to the next one."""
    bids = rows | "parse" >> beam.Map(lambda row: parse(row.value))
    pairs = bids | "pair" >> beam.Map(lambda bid: (bid["bidder"], bid["price"]))
    return totals(pairs | beam.WindowInto(FixedWindows(WINDOW)))


def json_few(rows: Any, parse: Callable[[bytes], Any] = parsed) -> Any:
    """The prices of some auctions."""
    some = rows | beam.Filter(lambda row: parse(row.value)["auction"] % 123 == 0)
    return some | "price" >> beam.Map(lambda row: parse(row.value)["price"])


def of_json(name: str, build: Callable[..., Any], task: Task) -> Task:
    """A task over bids that are JSON, with the query of one over columns."""

    def query(rows: Any) -> Any:
        text, fields = sf.col("value").cast("string"), "auction long, bidder long, price long"
        return task.query(
            rows.select("at", sf.from_json(text, fields).alias("bid")).select("at", "bid.*")
        )

    return replace(
        task, name=name, build=build, query=query, table="json", called=partial(build, parse=called)
    )


TASKS = {
    "sessions": Task("bids of a bidder in a session", session_counts, of_sessions, joins=True),
    "fixed": Task(
        "sum of a bidder in 10 s",
        window_sums,
        lambda bids: bids.groupBy(sf.window("at", f"{WINDOW} seconds"), "bidder").agg(
            sf.sum("price").alias("number")
        ),
    ),
    "hour": in_groups(FixedWindows(HOUR), "1 hour"),
    "minutes": in_groups(FixedWindows(5 * MINUTE), "5 minutes"),
    "sliding": in_groups(SlidingWindows(HOUR, 5 * MINUTE), "1 hour", "5 minutes"),
    "mean": Task(
        "mean price of an auction",
        means,
        lambda bids: bids.groupBy("auction").agg(sf.avg("price").cast("long").alias("number")),
    ),
    "fields": Task(
        "sum, mean and maximum of a bidder",
        aggregated,
        lambda bids: (
            bids.groupBy("bidder")
            .agg(sf.sum("price").alias("s"), sf.avg("price").alias("m"), sf.max("price").alias("d"))
            .select((sf.col("s") + sf.col("m").cast("long") + sf.col("d")).alias("number"))
        ),
    ),
    "filter": Task(
        "filter and map",
        few,
        lambda bids: bids.where("auction % 123 = 0").select(sf.col("price").alias("number")),
    ),
    "branches": Task("sum of a bidder, of two branches", branches, of_branches),
}

TASKS |= {
    "named": of_sales(
        "sum by a NamedTuple with None",
        lambda sale: (Item(sale.bidder, sale.category), sale.price),
        sum,
        lambda item, total: total + item.bidder,
        "bidder, category",
        "sum(price) + bidder",
    ),
    "none": of_sales(
        "sum by a tuple with None",
        lambda sale: ((sale.bidder, sale.label), sale.price),
        sum,
        lambda key, total: total + len(key[1] or ""),
        "bidder, label",
        "sum(price) + coalesce(length(label), 0)",
    ),
    "nullable": of_sales(
        "sum by a nullable number, of nullable numbers",
        lambda sale: (sale.category, 0 if sale.rate is None else sale.rate),
        sum,
        lambda category, total: total + (category or 0),
        "category",
        "coalesce(sum(rate), 0) + coalesce(category, 0)",
    ),
    "decimals": of_sales(
        "sum of decimals of a bidder",
        lambda sale: (sale.bidder, sale.amount),
        sum,
        lambda bidder, total: int(100 * total),
        "bidder",
        "bigint(100 * sum(amount))",
    ),
    "by-decimal": of_sales(
        "sum by a decimal",
        lambda sale: (sale.fee, sale.price),
        sum,
        lambda fee, total: total + int(100 * fee),
        "fee",
        "sum(price) + bigint(100 * fee)",
        tuple[Decimal, int],
    ),
    "times": of_sales(
        "latest timestamp of a bidder",
        lambda sale: (sale.bidder, sale.at),
        max,
        lambda bidder, latest: latest.micros // 1000,
        "bidder",
        "unix_millis(max(at))",
    ),
    "by-time": of_sales(
        "sum by a timestamp",
        lambda sale: (sale.second, sale.price),
        sum,
        lambda second, total: total + second.micros // 1_000_000,
        "second",
        "sum(price) + unix_seconds(second)",
        tuple[Timestamp, int],
    ),
    "sales-fields": Task(
        "sum, largest and latest by a nullable field",
        fields_of_sales,
        lambda sales: sales.groupBy("bidder", "category").agg(
            sf.expr("bigint(100 * (sum(amount) + max(amount))) + unix_seconds(max(at))").alias(
                "number"
            )
        ),
        lambda folder, _: ReadFromSpark("parquet", {"path": folder}),
        "sales",
    ),
}

TASKS |= {
    "json": of_json("sum of a bidder in 10 s, of JSON", json_sums, TASKS["fixed"]),
    "json-steps": of_json("the same, whole objects", json_steps, TASKS["fixed"]),
    "json-few": of_json("filter and map of JSON", json_few, TASKS["filter"]),
    "parquet": of_files(TASKS["sessions"]),
    "generated": replace(
        TASKS["sessions"],
        name=f"{TASKS['sessions'].name}, NexmarkEvents (Spark reads Parquet)",
        build=lambda events: session_counts(bids(events)),
        read=lambda folder, events: NexmarkEvents(events),
    ),
    "fixed-files": of_files(TASKS["fixed"]),
    "sums-files": of_files(
        Task(
            "sum of a bidder",
            lambda bids: totals(bids | beam.Map(lambda bid: (bid.bidder, bid.price))),
            lambda bids: bids.groupBy("bidder").agg(sf.sum("price").alias("number")),
        )
    ),
    **{f"{name}-files": of_files(TASKS[name], "slow") for name in ("hour", "minutes", "sliding")},
}

RESULTS, TOTAL = Metrics.counter("bench", "results"), Metrics.counter("bench", "total")


def note(number: Any) -> None:
    """Counts a result."""
    RESULTS.inc()
    TOTAL.inc(number)


SHUFFLED: dict[str, int] = {}
"""The bytes that pipelines have written to shuffles, by the names of their tasks."""


def in_beam(spark: Any, folder: str, task: Task, *options: str, events: int = 0) -> tuple[int, int]:
    """What a pipeline comes to."""
    p = beam.Pipeline(SparkRunner(spark), options=PipelineOptions(list(options)))
    read = p | task.read(folder, events)
    _ = task.build(read) | "note" >> beam.Map(note)
    result: Any = p.run()
    result.wait_until_finish()
    stages = [spark for stage in result.summary().stages for spark in stage.spark]
    SHUFFLED[task.name] = sum(stage.written_bytes for stage in stages)
    counters = result.metrics().query()["counters"]
    found = {counter.key.metric.name: counter.committed for counter in counters}
    return found["results"], found["total"]


def in_spark(spark: Any, folder: str, task: Task) -> tuple[int, int]:
    """What a query comes to."""
    bids = spark.read.parquet(folder)
    (row,) = task.query(bids).agg(sf.count("*"), sf.sum("number")).collect()
    return row[0], row[1]


def passed(spark: Any, folder: str) -> tuple[int, int]:
    """The rows of three columns that Spark has handed to Python, which counts them."""
    bids = spark.read.parquet(folder).select("bidder", "price", "at")
    found = bids.mapInArrow(_counted, "number long").collect()
    return sum(number for (number,) in found), 0


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch([[sum(batch.num_rows for batch in batches)]], names=["number"])


def write_bids(spark: Any, events: int, folder: str) -> None:
    """The bids among so many events, as Parquet."""
    spark.dataSource.register(NexmarkDataSource)
    source = spark.read.format("nexmark").option("kind", "bid").option("events", events)
    bids = source.load().withColumn("at", sf.timestamp_millis("date_time"))
    first = bids.agg(sf.min("date_time")).head()[0]
    bids = bids.withColumn("slow", first + MINUTE * (sf.col("date_time") - first))
    bids.withColumn("slowly", sf.timestamp_millis("slow")).write.parquet(folder)


def write_json(spark: Any, bids: str, folder: str) -> None:
    """Bids as JSON in bytes, as Kafka delivers them, in Parquet."""
    fields = sf.struct("auction", "bidder", "price", "date_time", "extra")
    value = sf.to_json(fields).cast("binary").alias("value")
    spark.read.parquet(bids).select("at", value).write.parquet(folder)


def write_sales(spark: Any, bids: str, folder: str) -> None:
    """Bids as sales, as Parquet."""
    spark.read.parquet(bids).selectExpr(
        *("bidder", "price", "at", "date_trunc('second', slowly) as second"),
        "cast(price / 100 as decimal(12, 2)) as amount",
        "cast(price % 1000 / 100 as decimal(6, 2)) as fee",
        "if(auction % 7 = 0, null, auction % 50) as category",
        "if(auction % 7 = 0, null, concat('label ', auction % 50)) as label",
        "if(price % 5 = 0, null, price % 100) as rate",
    ).write.parquet(folder)


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(TASKS), help="which; default: %(default)s")
    parser.add_argument("--programs", default="columns,elements,Spark", help="default: %(default)s")
    parser.add_argument("--picture", type=Path, help="an SVG file of box plots")
    add_place(parser)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    # Beam has coders for them as keys, but does not choose these by itself.
    coders.registry.register_coder(Decimal, coders.coders.DecimalCoder)
    coders.registry.register_coder(Timestamp, coders.coders.TimestampCoder)
    table = Table("task", "program", "results", "s", "relative to the first")
    every: list[Times] = []
    with tempfile.TemporaryDirectory() as scratch, session_on(arguments.on) as spark:
        write_bids(spark, arguments.events, f"{scratch}/bids")
        write_sales(spark, f"{scratch}/bids", f"{scratch}/sales")
        write_json(spark, f"{scratch}/bids", f"{scratch}/json")
        for name in arguments.only.split(","):
            task = TASKS[name]
            folder = f"{scratch}/{task.table}"
            programs: dict[str, Callable[[], tuple[int, int]]] = {
                "columns": partial(in_beam, spark, folder, task, events=arguments.events),
                "elements": partial(
                    in_beam, spark, folder, task, "--columns=off", events=arguments.events
                ),
                "called": partial(
                    in_beam, spark, folder, replace(task, build=task.called or task.build)
                ),
                "Spark": partial(in_spark, spark, folder, task),
                "passed": partial(passed, spark, folder),
            }
            contestants = {program: programs[program] for program in arguments.programs.split(",")}
            results, times = in_turns(task.name, contestants, arguments.rounds)
            every += times.values()
            ours = next(iter(times.values())).median
            for program, one in times.items():
                row = f"{results[program][0]:,}", f"{one.median:.2f}", f"{one.median / ours:.2f}x"
                table.add_row(task.name, program, *row)
            others = {"passed", "Spark"} if task.joins else {"passed"}
            if len({found for program, found in results.items() if program not in others}) > 1:
                sys.exit("The results differ.")
        peaks = sum(worker_peaks())
    if arguments.picture:
        draw(every, arguments.picture)
    Console(width=120).print(table)
    for name, size in SHUFFLED.items():
        print(f"{name}: {size / 1e6:.1f} MB written to a shuffle")
    print(f"The peaks of all Python workers come to {peaks:,.0f} MiB.")


if __name__ == "__main__":
    main()

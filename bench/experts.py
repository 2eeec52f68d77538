"""Nexmark's queries beside what an expert of Spark's DataFrames writes.

Run with ``python bench/experts.py``. Nexmark's persons, auctions and bids are written to Parquet
once, each a table. Then, in one session on two cores, the contestants of each query take turns:
the Beam query of ``beam_nexmark`` as it stands, which reads with ``ReadFromSpark`` or with
Beam's own ``ReadFromParquet``, and a program over DataFrames. All count the results, and add up a
number that is made of all their fields, and have to agree.

Query 12 counts bids while the clock runs, and Spark has no clock in batch. The program counts those
of the whole input, as the query does if the input ends within ten seconds. Otherwise, a bidder has
several results, so only their sums are compared.
"""

import argparse
import logging
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.transforms.combiners import CountCombineFn, TupleCombineFn
from apache_beam.transforms.window import GlobalWindows, TimestampedValue
from contest import Times, draw, in_turns
from places import session_on
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

from beam_nexmark.configuration import Configuration
from beam_nexmark.datasource import NexmarkDataSource
from beam_nexmark.events import Auction, Bid, Event, Person
from beam_nexmark.queries import QUERIES
from beam_nexmark.queries.winning_bids import AuctionBid
from sparkbeam import SparkRunner
from sparkbeam.io import ReadFromSpark

WINDOW, PERIOD, SHORTER = "10 seconds", "5 seconds", "9999 milliseconds"

Tables = Callable[[str], DataFrame]
"""Gives the table of a kind of events."""

Found = tuple[int, int]
"""How many results there are, and what their numbers come to."""


@dataclass(frozen=True)
class Contest:
    """A query in two forms.

    Attributes:
        kinds: the events that it is about.
        number: one that is made of all fields of a result, in Beam.
        program: what the expert writes.
        same: the same in Spark's SQL, of the rows of the program.
        by_clock: how many results there are depends on the clock.
    """

    kinds: tuple[str, ...]
    number: Callable[[Any], int]
    program: Callable[[Tables], DataFrame]
    same: str
    by_clock: bool = False


def in_euros(table: Tables) -> DataFrame:
    """Query 1."""
    return table("bid").withColumn("price", sf.expr("price * 89 div 100"))


def selected(table: Tables) -> DataFrame:
    """Query 2."""
    return table("bid").where("auction % 123 = 0").select("auction", "price")


def local_items(table: Tables) -> DataFrame:
    """Query 3."""
    sellers = table("person").where(sf.col("state").isin("OR", "ID", "CA"))
    items = table("auction").where("category = 10").selectExpr("seller", "id as auction")
    joined = items.join(sellers, items["seller"] == sellers["id"])
    return joined.select("name", "city", "state", "auction")


def timely_bids(table: Tables, *fields: str) -> DataFrame:
    """Bids that reach the reserve before their auction closes, with fields of the auction."""
    auctions = table("auction").selectExpr("id as auction", "reserve", "expires", *fields)
    return table("bid").join(auctions, "auction").where("date_time < expires and price >= reserve")


def category_prices(table: Tables) -> DataFrame:
    """Query 4. In Beam, an auction has the last microsecond before its close."""
    timely = timely_bids(table, "category").groupBy("auction", "category", "expires")
    closed = timely.agg(sf.max("price").alias("price"))
    closes = sf.timestamp_micros(sf.expr("expires * 1000 - 1"))
    means = closed.groupBy(sf.window(closes, WINDOW, PERIOD), "category").agg(sf.avg("price"))
    return means.selectExpr("category", "floor(`avg(price)` + 0.5) as price")


def hot_items(table: Tables) -> DataFrame:
    """Query 5."""
    counts = table("bid").groupBy(sf.window("at", WINDOW, PERIOD), "auction").count()
    most = sf.max("count").over(Window.partitionBy("window"))
    return counts.withColumn("most", most).where("count = most").select("auction", "count")


def highest_bids(table: Tables) -> DataFrame:
    """Query 7."""
    bids = table("bid").withColumn("start", sf.window("at", WINDOW)["start"])
    highest = bids.groupBy("start").agg(sf.max("price").alias("price"))
    return bids.join(sf.broadcast(highest), ["start", "price"])


def new_users(table: Tables) -> DataFrame:
    """Query 8."""
    start = sf.window("at", WINDOW)["start"].alias("start")
    persons = table("person").select("id", "name", start)
    auctions = table("auction").select(sf.col("seller").alias("id"), "reserve", start)
    return persons.join(auctions, ["id", "start"]).select("id", "name", "reserve")


def winning_bids(table: Tables) -> DataFrame:
    """Query 9."""
    rank = sf.struct("price", -sf.col("date_time"), -sf.col("bidder"))
    bid = sf.struct("auction", "bidder", "price", "date_time", "extra")
    winners = timely_bids(table).groupBy("auction").agg(sf.max_by(bid, rank).alias("bid"))
    return table("auction").join(winners, sf.col("id") == sf.col("auction"))


def user_sessions(table: Tables) -> DataFrame:
    """Query 11.

    Sessions that touch are one in Spark and two in Beam. Times are whole milliseconds, so a gap
    that is one shorter makes them two in Spark.
    """
    return table("bid").groupBy(sf.session_window("at", SHORTER), "bidder").count()


def bidders(table: Tables) -> DataFrame:
    """Query 12."""
    return table("bid").groupBy("bidder").count()


def side_input(table: Tables) -> DataFrame:
    """Query 13."""
    rows = Configuration().side_input_rows
    bids = table("bid").withColumn("number", sf.expr(f"bidder % {rows}")).drop("extra")
    texts = bids.sparkSession.range(rows).selectExpr("id as number", "string(id) as extra")
    return bids.join(sf.broadcast(texts), "number").drop("number")


OF_A_BID = "auction + bidder + price + date_time + length(extra)"
OF_A_WINNER = (
    "id + length(item_name) + length(description) + initial_bid + reserve + date_time + expires"
    " + seller + category + length(extra)"
    " + bid.auction + bid.bidder + bid.price + bid.date_time + length(bid.extra)"
)


def of_a_bid(bid: Bid) -> int:
    """A number of all fields of a bid."""
    return bid.auction + bid.bidder + bid.price + bid.date_time + len(bid.extra)


def of_a_winner(found: AuctionBid) -> int:
    """A number of all fields of an auction and its bid."""
    auction = found.auction
    texts = len(auction.item_name) + len(auction.description) + len(auction.extra)
    prices = auction.initial_bid + auction.reserve
    times = auction.date_time + auction.expires
    return (auction.id + texts + prices + times + auction.seller + auction.category) + of_a_bid(
        found.bid
    )


CONTESTS = {
    1: Contest(("bid",), of_a_bid, in_euros, OF_A_BID),
    2: Contest(("bid",), lambda found: found.auction + found.price, selected, "auction + price"),
    3: Contest(
        ("person", "auction"),
        lambda found: len(found.name) + len(found.city) + len(found.state) + found.auction,
        local_items,
        "length(name) + length(city) + length(state) + auction",
    ),
    4: Contest(
        ("auction", "bid"),
        lambda found: found.category * found.price,
        category_prices,
        "category * price",
    ),
    5: Contest(("bid",), lambda found: found.auction * found.bids, hot_items, "auction * count"),
    7: Contest(("bid",), of_a_bid, highest_bids, OF_A_BID),
    8: Contest(
        ("person", "auction"),
        lambda found: found.id + len(found.name) + found.reserve,
        new_users,
        "id + length(name) + reserve",
    ),
    9: Contest(("auction", "bid"), of_a_winner, winning_bids, OF_A_WINNER),
    11: Contest(("bid",), lambda found: found.bidder * found.bids, user_sessions, "bidder * count"),
    12: Contest(
        ("bid",),
        lambda found: (found.bidder + 1) * found.bids,
        bidders,
        "(bidder + 1) * count",
        True,
    ),
    13: Contest(("bid",), of_a_bid, side_input, OF_A_BID),
}
"""By the numbers of the queries."""


def person(row: Any) -> Person:
    """The Person of a row."""
    return Person(
        row.id,
        row.name,
        row.email_address,
        row.credit_card,
        row.city,
        row.state,
        row.date_time,
        row.extra,
    )


def auction(row: Any) -> Auction:
    """The Auction of a row."""
    return Auction(
        row.id,
        row.item_name,
        row.description,
        row.initial_bid,
        row.reserve,
        row.date_time,
        row.expires,
        row.seller,
        row.category,
        row.extra,
    )


def bid(row: Any) -> Bid:
    """The Bid of a row."""
    return Bid(row.auction, row.bidder, row.price, row.date_time, row.extra)


EVENTS: dict[str, Callable[[Any], Event]] = {"person": person, "auction": auction, "bid": bid}
"""Makes events of a kind of the rows of its table."""

CLASSES = {"person": Person, "auction": Auction, "bid": Bid}

Read = Callable[[beam.Pipeline, str, str], Any]
"""Reads the events of a kind from a folder."""

RESULTS, TOTAL = Metrics.counter("bench", "results"), Metrics.counter("bench", "total")


def note(found: Found) -> None:
    """Tells what there is."""
    RESULTS.inc(found[0])
    TOTAL.inc(found[1])


def read_by_spark(p: beam.Pipeline, folder: str, kind: str) -> Any:
    """The events of a kind, by ``ReadFromSpark``."""
    path = {"path": f"{folder}/{kind}"}
    return (
        p
        | f"Read {kind}" >> ReadFromSpark("parquet", path, timestamp_column="at")
        | f"Make {kind}" >> beam.Map(EVENTS[kind])
    )


def read_by_beam(p: beam.Pipeline, folder: str, kind: str) -> Any:
    """The events of a kind, by Beam's ``ReadFromParquet``."""
    make = EVENTS[kind]
    return (
        p
        | f"Read {kind}" >> beam.io.ReadFromParquet(f"{folder}/{kind}/*.parquet")
        | f"Make {kind}" >> beam.Map(lambda row: make(beam.Row(**row)))
        | f"Times of {kind}" >> beam.Map(at).with_output_types(CLASSES[kind])
    )


def at(event: Event) -> TimestampedValue[Event]:
    """An event with its time."""
    return TimestampedValue(event, event.date_time / 1000)


def in_beam(spark: SparkSession, folder: str, number: int, read: Read = read_by_spark) -> Found:
    """What a query comes to."""
    contest = CONTESTS[number]
    p = beam.Pipeline(SparkRunner(spark))
    kinds = [read(p, folder, kind) for kind in contest.kinds]
    events = kinds[0] if len(kinds) == 1 else kinds | beam.Flatten()
    _ = (
        QUERIES[number].build(events, Configuration())
        | "Number" >> beam.Map(contest.number).with_output_types(int)
        | "Twice" >> beam.Map(lambda number: (number, number))
        | "All" >> beam.WindowInto(GlobalWindows())
        | "Sum" >> beam.CombineGlobally(TupleCombineFn(CountCombineFn(), sum)).without_defaults()
        | "Note" >> beam.Map(note)
    )
    result: Any = p.run()
    result.wait_until_finish()
    counters = result.metrics().query()["counters"]
    found = {counter.key.metric.name: counter.committed for counter in counters}
    return found["results"], found["total"]


def in_spark(spark: SparkSession, folder: str, number: int) -> Found:
    """What a program over DataFrames comes to."""
    contest = CONTESTS[number]
    results = contest.program(lambda kind: spark.read.parquet(f"{folder}/{kind}"))
    row = results.agg(sf.count("*"), sf.expr(f"sum({contest.same})")).head()
    assert row is not None
    return row[0], row[1]


def write(spark: SparkSession, events: int, folder: str) -> None:
    """So many events as Parquet, a table for each kind."""
    spark.dataSource.register(NexmarkDataSource)
    for kind in EVENTS:
        source = spark.read.format("nexmark").option("kind", kind).option("events", events)
        of_kind = source.load().withColumn("at", sf.timestamp_millis("date_time"))
        of_kind.write.parquet(f"{folder}/{kind}")


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--query", default=",".join(map(str, CONTESTS)), help="such as 1,7")
    parser.add_argument("--picture", type=Path, help="an SVG file of box plots")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    readers = {"ReadFromSpark": read_by_spark, "ReadFromParquet": read_by_beam}
    table = Table(
        "query", "results", *(f"{name}, s" for name in readers), "Spark, s", "Beam to Spark"
    )
    every: list[Times] = []
    with tempfile.TemporaryDirectory() as scratch, session_on("local") as spark:
        write(spark, arguments.events, scratch)
        for number in map(int, arguments.query.split(",")):
            contestants: dict[str, Callable[[], Found]] = {
                way: partial(in_beam, spark, scratch, number, read) for way, read in readers.items()
            }
            contestants["Spark"] = partial(in_spark, spark, scratch, number)
            name = f"q{number} {QUERIES[number].name}"
            found, times = in_turns(name, contestants, arguments.rounds)
            by_clock = CONTESTS[number].by_clock
            if len({total if by_clock else (count, total) for count, total in found.values()}) > 1:
                sys.exit(f"The results of query {number} differ: {found}")
            every += times.values()
            ratios = [f"{times[way].median / times['Spark'].median:.2f}" for way in readers]
            medians = [f"{one.median:.2f}" for one in times.values()]
            table.add_row(name, f"{found['Spark'][0]:,}", *medians, ", ".join(ratios))
    if arguments.picture:
        draw(every, arguments.picture)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()

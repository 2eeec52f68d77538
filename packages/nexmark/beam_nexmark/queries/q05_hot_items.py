"""Query 5, hot items: auctions with the most bids."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.transforms.window import SlidingWindows

from beam_nexmark.configuration import Configuration
from beam_nexmark.queries.query import Query
from beam_nexmark.queries.selection import bids


class AuctionCount(NamedTuple):
    """The number of bids on an auction."""

    auction: int
    bids: int


class MostFn(beam.CombineFn):
    """Selection of the maximal AuctionCounts."""

    def create_accumulator(self) -> list[AuctionCount]:
        return []

    def add_input(self, best: list[AuctionCount], count: AuctionCount) -> list[AuctionCount]:
        if not best or count.bids > best[0].bids:
            return [count]
        if count.bids == best[0].bids:
            best.append(count)
        return best

    def merge_accumulators(self, accumulators: Iterable[list[AuctionCount]]) -> list[AuctionCount]:
        most: list[AuctionCount] = []
        for best in accumulators:
            if not most or (best and best[0].bids > most[0].bids):
                most = best
            elif best and best[0].bids == most[0].bids:
                most = most + best
        return most

    def extract_output(self, best: list[AuctionCount]) -> list[AuctionCount]:
        return best


def build(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return an AuctionCount for each auction that leads in a sliding window."""
    return (
        bids(events)
        | "Windows"
        >> beam.WindowInto(SlidingWindows(configuration.window_size, configuration.window_period))
        | "Auctions" >> beam.Map(lambda bid: bid.auction)
        | "Count" >> beam.combiners.Count.PerElement()
        | "Counts" >> beam.MapTuple(AuctionCount)
        | "Most" >> beam.CombineGlobally(MostFn()).without_defaults()
        | "Each" >> beam.FlatMap(lambda best: best)
    )


QUERY = Query(
    number=5,
    name="hot items",
    question="Which auctions have the most bids in a window?",
    build=build,
)

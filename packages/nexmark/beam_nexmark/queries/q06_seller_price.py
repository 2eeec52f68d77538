"""Query 6, average selling price of a seller's last auctions."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.window import GlobalWindows

from beam_nexmark.configuration import Configuration
from beam_nexmark.queries.prices import rounded
from beam_nexmark.queries.query import Query
from beam_nexmark.queries.winning_bids import WinningBids

LAST = 10
"""Number of auctions in the mean."""

Sales = list[tuple[int, int]]
"""Times and prices of winning bids."""


class SellerPrice(NamedTuple):
    """The mean price of a seller's last auctions."""

    seller: int
    price: int


class LastMeanFn(beam.CombineFn):
    """Mean price of the latest sales."""

    def create_accumulator(self) -> Sales:
        return []

    def add_input(self, latest: Sales, sale: tuple[int, int]) -> Sales:
        return self.merge_accumulators([latest, [sale]])

    def merge_accumulators(self, accumulators: Iterable[Sales]) -> Sales:
        return sorted(sale for latest in accumulators for sale in latest)[-LAST:]

    def extract_output(self, latest: Sales) -> int:
        return rounded(sum(price for _, price in latest) / len(latest)) if latest else 0


def build(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return a SellerPrice for each seller, again with each auction that closes."""
    return (
        events
        | WinningBids(configuration)
        | "Sales" >> beam.Map(lambda won: (won.auction.seller, (won.bid.date_time, won.bid.price)))
        | "Always"
        >> beam.WindowInto(
            GlobalWindows(),
            trigger=Repeatedly(AfterCount(1)),
            accumulation_mode=AccumulationMode.ACCUMULATING,
        )
        | "Mean of the last" >> beam.CombinePerKey(LastMeanFn())
        | "Results" >> beam.MapTuple(SellerPrice)
    )


QUERY = Query(
    number=6,
    name="average selling price by seller",
    question="What is the mean price of the last ten auctions of a seller?",
    build=build,
)

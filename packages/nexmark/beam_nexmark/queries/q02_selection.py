"""Query 2, selection: bids on some auctions."""

from typing import Any, NamedTuple

import apache_beam as beam

from beam_nexmark.configuration import Configuration
from beam_nexmark.queries.query import Query
from beam_nexmark.queries.selection import bids


class AuctionPrice(NamedTuple):
    """A price bid on an auction."""

    auction: int
    price: int


def build(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return an AuctionPrice for each bid on an auction whose id ``auction_skip`` divides."""
    skip = configuration.auction_skip
    return (
        bids(events)
        | "On some auctions" >> beam.Filter(lambda bid: bid.auction % skip == 0)
        | "Prices" >> beam.Map(lambda bid: AuctionPrice(bid.auction, bid.price))
    )


QUERY = Query(
    number=2,
    name="selection",
    question="What is bid on auctions whose id a number divides?",
    build=build,
)

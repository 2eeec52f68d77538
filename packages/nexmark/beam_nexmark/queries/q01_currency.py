"""Query 1, currency conversion: bids in euros."""

from typing import Any

import apache_beam as beam

from beam_nexmark.configuration import Configuration
from beam_nexmark.events import Bid
from beam_nexmark.queries.query import Query
from beam_nexmark.queries.selection import bids


def in_euros(bid: Bid) -> Bid:
    """Return the bid at 0.89 euros for a dollar, in whole cents."""
    return Bid(bid.auction, bid.bidder, bid.price * 89 // 100, bid.date_time, bid.extra)


def build(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return all bids, with their prices in euros."""
    return bids(events) | "In euros" >> beam.Map(in_euros)


QUERY = Query(
    number=1,
    name="currency conversion",
    question="What is each bid in euros?",
    build=build,
)

"""Query 9, winning bids: winning bid of each auction.

The transform is in :mod:`~beam_nexmark.queries.winning_bids`, shared with queries 4 and 6.
"""

from typing import Any

import apache_beam as beam

from beam_nexmark.configuration import Configuration
from beam_nexmark.queries.query import Query
from beam_nexmark.queries.winning_bids import WinningBids


def build(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return an AuctionBid for each auction that has a winner, when it closes."""
    return events | WinningBids(configuration)


QUERY = Query(
    number=9,
    name="winning bids",
    question="Which bid wins each auction?",
    build=build,
)

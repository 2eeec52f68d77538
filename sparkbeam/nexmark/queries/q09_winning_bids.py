"""Query 9, winning bids: which bid wins each auction?

The transform is in :mod:`~sparkbeam.nexmark.queries.winning_bids`, as queries 4 and 6
go on from there.
"""

from typing import Any

import apache_beam as beam

from sparkbeam.nexmark.configuration import Configuration
from sparkbeam.nexmark.queries.query import Query
from sparkbeam.nexmark.queries.winning_bids import WinningBids


def build(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """An AuctionBid for each auction that has a winner, when it closes."""
    return events | WinningBids(configuration)


QUERY = Query(
    number=9,
    name="winning bids",
    question="Which bid wins each auction?",
    build=build,
)

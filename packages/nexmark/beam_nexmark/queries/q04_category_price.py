"""Query 4, average closing price of auctions by category."""

from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.transforms.window import SlidingWindows

from beam_nexmark.configuration import Configuration
from beam_nexmark.queries.prices import rounded
from beam_nexmark.queries.query import Query
from beam_nexmark.queries.winning_bids import WinningBids


class CategoryPrice(NamedTuple):
    """The mean price of a category."""

    category: int
    price: int


def build(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return a CategoryPrice for each category and sliding window in which auctions close."""
    return (
        events
        | WinningBids(configuration)
        | "Prices" >> beam.Map(lambda won: (won.auction.category, won.bid.price))
        | "Windows"
        >> beam.WindowInto(SlidingWindows(configuration.window_size, configuration.window_period))
        | "Mean" >> beam.combiners.Mean.PerKey()
        | "Results" >> beam.MapTuple(lambda category, mean: CategoryPrice(category, rounded(mean)))
    )


QUERY = Query(
    number=4,
    name="average price for a category",
    question="What is the mean price of the auctions of a category that close in a window?",
    build=build,
)

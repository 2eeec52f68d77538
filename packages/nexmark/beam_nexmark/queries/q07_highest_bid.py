"""Query 7, highest bid: highest bids of each window.

A combiner alone would be faster; the query measures the side input.
"""

from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton
from apache_beam.transforms.window import FixedWindows

from beam_nexmark.configuration import Configuration
from beam_nexmark.queries.query import Query
from beam_nexmark.queries.selection import bids


def build(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return the bids with the highest price of their fixed window."""
    windowed = bids(events) | "Windows" >> beam.WindowInto(FixedWindows(configuration.window_size))
    highest = (
        windowed
        | "Prices" >> beam.Map(lambda bid: bid.price)
        | "Highest price" >> beam.CombineGlobally(max).without_defaults()
    )
    return windowed | "Highest bids" >> beam.Filter(
        lambda bid, price: bid.price == price, AsSingleton(highest)
    )


QUERY = Query(
    number=7,
    name="highest bid",
    question="Which bids are the highest of a window?",
    build=build,
)

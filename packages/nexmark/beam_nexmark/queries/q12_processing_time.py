"""Query 12, processing time windows: number of bids per user in processing time.

The grouping of bids depends on the clock. Therefore the bids themselves are compared: each result
stands for as many bids of its bidder as it counts.
"""

from typing import Any

import apache_beam as beam
from apache_beam.transforms.trigger import AccumulationMode, AfterProcessingTime, Repeatedly
from apache_beam.transforms.window import GlobalWindows

from beam_nexmark.configuration import Configuration
from beam_nexmark.queries.q11_user_sessions import BidderCount
from beam_nexmark.queries.query import Query
from beam_nexmark.queries.selection import bids


def build(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return a BidderCount per bidder, ``window_size`` seconds after the first uncounted bid."""
    return (
        bids(events)
        | "Bidders" >> beam.Map(lambda bid: bid.bidder)
        | "While the clock runs"
        >> beam.WindowInto(
            GlobalWindows(),
            trigger=Repeatedly(AfterProcessingTime(configuration.window_size)),
            accumulation_mode=AccumulationMode.DISCARDING,
        )
        | "Count" >> beam.combiners.Count.PerElement()
        | "Results" >> beam.MapTuple(BidderCount)
    )


def weigh(result: tuple[int, int]) -> tuple[int, int]:
    """Return the bidder, weighted by the number of bids."""
    return result


QUERY = Query(
    number=12,
    name="processing time windows",
    question="How many bids does a user make while the clock runs?",
    build=build,
    weigh=weigh,
)

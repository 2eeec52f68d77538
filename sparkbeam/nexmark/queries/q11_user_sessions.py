"""Query 11, user sessions: how many bids does a user make in a session?

Windows that only touch stay apart: a session ends with a gap of exactly its length. As in Beam's
Java suite a session is told as soon as ``max_log_events`` bids are there, and what is left of it
when no bid can come to it any more. In batch that is one result for each session.
"""

from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.window import Sessions

from sparkbeam.nexmark.configuration import Configuration
from sparkbeam.nexmark.queries.query import Query
from sparkbeam.nexmark.queries.selection import bids

_LATENESS = 1
"""How late bids may be, in seconds: half of the delay that Beam's generator gives some of them."""


class BidderCount(NamedTuple):
    """How many bids somebody made."""

    bidder: int
    bids: int


def build(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """A BidderCount for each session of a bidder."""
    return (
        bids(events)
        | "Bidders" >> beam.Map(lambda bid: bid.bidder)
        | "Sessions"
        >> beam.WindowInto(
            Sessions(configuration.window_size),
            trigger=Repeatedly(AfterCount(configuration.max_log_events)),
            accumulation_mode=AccumulationMode.DISCARDING,
            allowed_lateness=_LATENESS,
        )
        | "Count" >> beam.combiners.Count.PerElement()
        | "Results" >> beam.MapTuple(BidderCount)
    )


QUERY = Query(
    number=11,
    name="user sessions",
    question="How many bids does a user make in a session?",
    build=build,
)

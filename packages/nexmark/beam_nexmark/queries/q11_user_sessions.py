"""Query 11, user sessions: number of bids per session.

Windows that only touch stay apart: a session ends with a gap of exactly its length. As in Beam's
Java suite, a session is emitted after ``max_log_events`` bids, and its remainder once no more bids
can arrive. In batch there is one result per session.
"""

from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.window import Sessions

from beam_nexmark.configuration import Configuration
from beam_nexmark.queries.query import Query
from beam_nexmark.queries.selection import bids

_LATENESS = 1
"""Allowed lateness in seconds: half of the delay of some bids in Beam's generator."""


class BidderCount(NamedTuple):
    """The number of bids of a bidder."""

    bidder: int
    bids: int


def build(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return a BidderCount for each session of a bidder."""
    return counted(bids(events), configuration)


def counted(bids: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return a BidderCount for each session of a bidder of some bids."""
    return (
        bids
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

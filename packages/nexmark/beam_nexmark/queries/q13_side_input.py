"""Query 13, bounded side input join: data about each bid's bidder."""

from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsDict

from beam_nexmark.configuration import Configuration
from beam_nexmark.events import Bid
from beam_nexmark.queries.query import Query
from beam_nexmark.queries.selection import bids


def side_input(events: beam.PCollection[Any], configuration: Configuration) -> AsDict:
    """Return the side input: the text of each bidder's number, by number."""
    rows = [(number, str(number)) for number in range(configuration.side_input_rows)]
    return AsDict(events.pipeline | "Side input" >> beam.Create(rows))


def build(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return all bids, with the side input's text for their bidder in place of ``extra``."""
    rows = configuration.side_input_rows
    return bids(events) | "Join" >> beam.Map(
        lambda bid, texts: Bid(
            bid.auction, bid.bidder, bid.price, bid.date_time, texts[bid.bidder % rows]
        ),
        side_input(events, configuration),
    ).with_output_types(Bid)


QUERY = Query(
    number=13,
    name="bounded side input join",
    question="What does a side input know about each bid's bidder?",
    build=build,
)

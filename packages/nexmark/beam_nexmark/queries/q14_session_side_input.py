"""Query 14, session side input join: data about bidders by session."""

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import Sessions
from apache_beam.utils.timestamp import Timestamp

from beam_nexmark.configuration import Configuration
from beam_nexmark.events import Bid
from beam_nexmark.queries.q13_side_input import side_input
from beam_nexmark.queries.query import Query
from beam_nexmark.queries.selection import bids


def build(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return all bids; ``extra`` is the side input's text for the bidder and session bounds."""
    return (
        bids(events)
        | "By bidder" >> beam.Map(lambda bid: (bid.bidder, bid)).with_output_types(tuple[int, Bid])
        | "Sessions" >> beam.WindowInto(Sessions(configuration.session_gap))
        | "Group" >> beam.GroupByKey()
        | "Join"
        >> beam.FlatMap(
            _joined, side_input(events, configuration), configuration.side_input_rows
        ).with_output_types(Bid)
    )


def _joined(
    element: tuple[int, Iterable[Bid]],
    texts: dict[int, str],
    rows: int,
    window: Any = beam.DoFn.WindowParam,
) -> Iterator[Bid]:
    bidder, group = element
    text = f"{texts[bidder % rows]}:{_iso(window.start)}:{_iso(window.end)}"
    for bid in group:
        yield Bid(bid.auction, bid.bidder, bid.price, bid.date_time, text)


def _iso(time: Timestamp) -> str:
    """Format a time in UTC, always with milliseconds."""
    return f"{time.to_utc_datetime().isoformat(timespec='milliseconds')}Z"


QUERY = Query(
    number=14,
    name="session side input join",
    question="What does a side input know about bidders, session by session?",
    build=build,
)

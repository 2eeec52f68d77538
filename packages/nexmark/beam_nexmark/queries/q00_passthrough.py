"""Query 0, pass-through: cost of encoding and decoding each event."""

from typing import Any

import apache_beam as beam

from beam_nexmark.configuration import Configuration
from beam_nexmark.events import Event, EventCoder
from beam_nexmark.queries.query import Query

_CODER = EventCoder().get_impl()


def round_trip(event: Event) -> Event:
    """Return the event after a round trip through its coder."""
    return _CODER.decode(_CODER.encode(event))


def build(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return all events."""
    return events | "Round trip" >> beam.Map(round_trip)


QUERY = Query(
    number=0,
    name="pass-through",
    question="What does it cost to encode and decode each event?",
    build=build,
)

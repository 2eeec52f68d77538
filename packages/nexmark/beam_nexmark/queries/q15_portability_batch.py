"""Query 15, portability batch: cost of a shuffle and of coders.

It consists of a source, a GroupByKey over random keys, and a function of each element, and measures
the path from the runner's shuffle to the SDK and back.
"""

from random import randrange
from typing import Any

import apache_beam as beam

from beam_nexmark.configuration import Configuration
from beam_nexmark.events import Event
from beam_nexmark.queries.q00_passthrough import round_trip
from beam_nexmark.queries.query import Query


def build(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return all events, after a GroupByKey and a round trip through their coder."""
    buckets = configuration.key_buckets
    return (
        events
        | "Random keys"
        >> beam.Map(lambda event: (randrange(buckets), event)).with_output_types(tuple[int, Event])
        | "Group" >> beam.GroupByKey()
        | "Expand" >> beam.FlatMapTuple(lambda _, group: group).with_output_types(Event)
        | "Round trip" >> beam.Map(round_trip)
    )


QUERY = Query(
    number=15,
    name="portability batch",
    question="What does the way over a shuffle, and through the coders, cost?",
    build=build,
)

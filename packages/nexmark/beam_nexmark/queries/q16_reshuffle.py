"""Query 16, reshuffle: cost of redistributing all events."""

from typing import Any

import apache_beam as beam

from beam_nexmark.configuration import Configuration
from beam_nexmark.queries.query import Query


def build(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return all events, over random keys."""
    return events | "Spread" >> beam.Reshuffle(num_buckets=configuration.key_buckets)


QUERY = Query(
    number=16,
    name="reshuffle",
    question="What does it cost to spread all events anew?",
    build=build,
)

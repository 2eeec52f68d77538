"""The events as a Beam source."""

from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from sparkbeam.nexmark.configuration import Configuration
from sparkbeam.nexmark.generator import EventBatch, in_time_order
from sparkbeam.nexmark.model import Event

_RANGE = 10_000
"""How many events one element stands for before they are generated."""


class NexmarkEvents(beam.PTransform[beam.pvalue.PBegin, beam.PCollection[Any]]):
    """The Persons, Auctions and Bids of Nexmark, at the times at which they happen.

    They are generated in parallel, in ranges in the order of time::

        with beam.Pipeline() as pipeline:
            events = pipeline | NexmarkEvents(100_000)

    Args:
        events: how many, or the whole configuration.
    """

    def __init__(self, events: int | Configuration = 100_000) -> None:
        super().__init__()
        self._configuration = Configuration(events=events) if isinstance(events, int) else events

    def expand(self, pipeline: beam.pvalue.PBegin) -> beam.PCollection[Any]:
        return (
            pipeline
            | "Ranges" >> beam.Create(range(0, self._configuration.events, _RANGE))
            | "Spread" >> beam.Reshuffle()
            | "Generate"
            >> beam.FlatMap(partial(_events, self._configuration)).with_output_types(Event)
        )


def _events(configuration: Configuration, start: int) -> list[TimestampedValue[Event]]:
    """The events of a range, in the order of time."""
    numbers = in_time_order(configuration, start, start + _RANGE)
    events = EventBatch.of(configuration, numbers).to_python()
    times = numbers.timestamps
    starts = [0, *(np.flatnonzero(np.diff(times)) + 1).tolist()]
    found: list[TimestampedValue[Event]] = []
    for first, behind in zip(starts, [*starts[1:], len(events)], strict=True):
        moment = Timestamp(micros=int(times[first]) * 1000)
        found += [TimestampedValue(event, moment) for event in events[first:behind]]
    return found

"""Nexmark events as a Beam source."""

from functools import partial
from typing import Any, get_type_hints

import apache_beam as beam
import pyarrow as pa

from beam_nexmark.configuration import Configuration
from beam_nexmark.events import KINDS, Event
from beam_nexmark.generator import EventBatch, in_time_order
from sparkbeam.io import ReadFromArrow

_FEWEST, _MOST, _RANGES = 10_000, 100_000, 32
"""Number of events per element before their generation, and per batch afterwards."""

_TIME = "time"


class NexmarkEvents(beam.PTransform[beam.pvalue.PBegin, beam.PCollection[Any]]):
    """Persons, Auctions and Bids of Nexmark, with their event times.

    They are generated in parallel, in ranges in the order of time, without fields that nobody looks
    at where that makes no difference::

        with beam.Pipeline() as pipeline:
            events = pipeline | NexmarkEvents(100_000)

    Args:
        events: how many, or the whole configuration.
    """

    def __init__(self, events: int | Configuration = 100_000) -> None:
        super().__init__()
        self._configuration = Configuration(events=events) if isinstance(events, int) else events

    def expand(self, pipeline: beam.pvalue.PBegin) -> beam.PCollection[Any]:
        count = self._configuration.events
        size = min(max(_FEWEST, count // _RANGES), _MOST)
        starts = range(0, count, size)
        read = partial(_events, self._configuration, size)
        events = ReadFromArrow(starts, read, KINDS, timestamp_column=_TIME, schema=_SCHEMA)
        return pipeline | "Generate" >> events.with_output_types(Event)


def _events(
    configuration: Configuration, size: int, start: int, columns: list[str]
) -> list[pa.RecordBatch]:
    """Return the events of a range, in the order of time, with at least some columns."""
    numbers = in_time_order(configuration, start, start + size)
    wanted = [
        [field for field in kind._fields if f"{kind.__name__}.{field}" in columns] for kind in KINDS
    ]
    events = EventBatch.generate(configuration, numbers, wanted).to_union()
    times = pa.array(numbers.timestamps * 1000)
    return [pa.RecordBatch.from_arrays([events, times], ["event", _TIME])]


def _schema() -> pa.Schema:
    """Return the schema of all events, derived from their types."""
    types = {int: pa.int64(), str: pa.string()}
    structs = [
        pa.struct([(name, types[hint]) for name, hint in get_type_hints(kind).items()])
        for kind in KINDS
    ]
    union = pa.dense_union([pa.field(str(code), kind) for code, kind in enumerate(structs)])
    return pa.schema([("event", union), (_TIME, pa.int64())])


_SCHEMA = _schema()

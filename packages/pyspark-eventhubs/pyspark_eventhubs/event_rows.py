"""Conversion of events to rows of the data source."""

from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from pyspark_eventhubs.event_times import millis_of
from pyspark_eventhubs.events import Events

EVENT_TIME = "event_time"
"""Column with the time from a property, if one is given."""

_TEXTS = MapType(StringType(), StringType(), valueContainsNull=True)


def schema(*, event_time: bool) -> StructType:
    """Return the schema of the data source."""
    found = (
        StructType()
        .add("body", BinaryType(), nullable=False)
        .add("partition", LongType(), nullable=False)
        .add("offset", StringType(), nullable=False)
        .add("sequence_number", LongType(), nullable=False)
        .add("enqueued_time", TimestampType(), nullable=False)
        .add("publisher", StringType())
        .add("partition_key", StringType())
        .add("properties", _TEXTS, nullable=False)
        .add("system_properties", _TEXTS, nullable=False)
        .add("event_hub", StringType(), nullable=False)
    )
    return found.add(EVENT_TIME, TimestampType(), nullable=False) if event_time else found


def arrow_schema(of_rows: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark requires of batches."""
    return pa.schema(
        [pa.field(field.name, _ARROW[type(field.dataType)], field.nullable) for field in of_rows]
    )


_TIME = pa.timestamp("us", "UTC")
_ARROW: dict[type, pa.DataType] = {
    BinaryType: pa.binary(),
    LongType: pa.int64(),
    StringType: pa.string(),
    TimestampType: _TIME,
    MapType: pa.map_(pa.string(), pa.string()),
}


def batch(
    events: Events, hub: str, partition: int, of_rows: pa.Schema, time_property: str | None = None
) -> pa.RecordBatch:
    """Return events as a record batch for Spark."""
    columns: dict[str, list[Any]] = {
        "body": events.bodies,
        "partition": [partition] * len(events),
        "offset": [offset or "" for offset in events.offsets],
        "sequence_number": events.numbers,
        "enqueued_time": events.times,
        "publisher": events.publishers,
        "partition_key": events.keys,
        "properties": events.properties,
        "system_properties": events.system,
        "event_hub": [hub] * len(events),
    }
    if time_property is not None:
        columns[EVENT_TIME] = event_times(events, time_property)
    arrays = [
        _times(columns[field.name])
        if field.type == _TIME
        else pa.array(columns[field.name], field.type)
        for field in of_rows
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=of_rows)


def _times(millis: list[int]) -> pa.Array:
    return pa.array(millis, pa.timestamp("ms", "UTC")).cast(_TIME)


def event_times(events: Events, name: str) -> list[int]:
    """Return the event times from a property, or the enqueued times where it is missing."""
    found = []
    for pairs, enqueued in zip(events.properties, events.times, strict=True):
        value = next((value for key, value in pairs if key == name), None)
        millis = None if value is None else millis_of(value)
        found.append(enqueued if millis is None else millis)
    return found

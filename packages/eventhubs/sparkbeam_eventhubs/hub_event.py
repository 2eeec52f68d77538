"""Event of an event hub as an element."""

from collections.abc import Mapping
from typing import NamedTuple

from apache_beam.coders import RowCoder, registry
from apache_beam.utils.timestamp import Timestamp


class EventHubsEvent(NamedTuple):
    """Event of an event hub.

    Attributes:
        body: the payload.
        partition: its partition.
        offset: its offset in the partition.
        sequence_number: its number in the partition.
        enqueued_time: the time of its arrival.
        publisher: its sender, if known.
        partition_key: the key that selected its partition, if any.
        properties: the sender's properties, as strings.
        system_properties: other annotations and properties of its message, as strings.
    """

    body: bytes
    partition: int
    offset: str
    sequence_number: int
    enqueued_time: Timestamp
    publisher: str | None
    partition_key: str | None
    properties: Mapping[str, str | None]
    system_properties: Mapping[str, str | None]


registry.register_coder(EventHubsEvent, RowCoder)

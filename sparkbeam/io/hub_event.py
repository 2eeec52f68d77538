"""An event of an event hub as an element."""

from collections.abc import Mapping
from typing import NamedTuple

from apache_beam.coders import RowCoder, registry
from apache_beam.utils.timestamp import Timestamp


class EventHubsEvent(NamedTuple):
    """An event of an event hub.

    Attributes:
        body: what was sent.
        partition: in which it is.
        offset: where it is there.
        sequence_number: counts the events of the partition.
        enqueued_time: when it came.
        publisher: who has sent it, where that is told.
        partition_key: by which its partition was chosen, if it was.
        properties: what its sender has said beside it, as texts.
        system_properties: other annotations and properties of its message, as texts.
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

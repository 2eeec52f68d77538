"""What the tests of Event Hubs share."""

import pickle
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from pyspark_eventhubs import EventHubsSource
from pyspark_eventhubs.amqp_client import AmqpClient, AmqpReceiver
from pyspark_eventhubs.data_source import EventHubsStreamReader
from pyspark_eventhubs.events import Events
from pyspark_eventhubs.pool import Pool
from pyspark_eventhubs.range_reader import Range, RangeReader
from pyspark_eventhubs.settings import ConnectionSettings
from pyspark_eventhubs.source_options import SourceOptions
from pyspark_eventhubs.testing import EventHubsServer

EARLY = datetime(2030, 1, 1, tzinfo=UTC)


def numbered(count: int, first: int = 0) -> list[bytes]:
    """Bodies that tell their order."""
    return [b"%d" % number for number in range(first, first + count)]


def stream(base: Mapping[str, str], **given: str) -> EventHubsStreamReader:
    """The data source's part on the driver."""
    source = EventHubsSource({**base, **given})
    found = source.streamReader(source.schema())
    assert isinstance(found, EventHubsStreamReader)
    return pickle.loads(pickle.dumps(found))


def rows(reader: Any, partitions: Any) -> list[dict[str, Any]]:
    """What the tasks of a micro-batch read."""
    return [
        row
        for partition in partitions
        for found in rows_of(reader, partition)
        for row in found.to_pylist()
    ]


def rows_of(reader: Any, partition: Any) -> Iterator[pa.RecordBatch]:
    """What a task reads."""
    found: Iterator[pa.RecordBatch] = reader.read(pickle.loads(pickle.dumps(partition)))
    return found


def at(offset: dict[str, dict[str, int]]) -> dict[str, int]:
    return offset["clicks"]


def connection(server: EventHubsServer, hub: str = "clicks") -> ConnectionSettings:
    return ConnectionSettings(text=server.connection_string(hub))


def connected(server: EventHubsServer, hub: str = "clicks") -> AmqpClient:
    return AmqpClient(connection(server, hub))


def options(server: EventHubsServer, **given: str) -> SourceOptions:
    return SourceOptions.parse({"connectionString": server.connection_string("clicks")} | given)


def all_of(receiver: AmqpReceiver, end: int) -> Events:
    """The events that a receiver gives up to an end."""
    found = Events()
    while receiver.position < end:
        some = receiver.read(end, 10)
        assert some.numbers, "nothing has come"
        for whole, part in zip(found.columns(), some.columns(), strict=True):
            whole.extend(part)
    return found


def range_of(
    source: SourceOptions, start: int, end: int, pool: Pool, *, epoch: int | None = None
) -> list[bytes]:
    """The bodies of a range of partition 0."""
    reader = RangeReader(source, Range("0", start, end, epoch), pool)
    return [body for events in reader.events() for body in events.bodies]

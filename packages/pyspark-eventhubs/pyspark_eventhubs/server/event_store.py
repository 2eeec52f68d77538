"""Events of the hubs of a server."""

import bisect
import re
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark_eventhubs.amqp import frames
from pyspark_eventhubs.amqp.values import Described, Symbol, Timestamp, encode, sections

OFFSET = 100
"""Factor from sequence numbers to offsets, so that the two are not confused."""

_SELECTOR = re.compile(r"amqp\.annotation\.(x-opt-[a-z-]+)\s*(>=|>)\s*'([^']*)'")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KEY = Symbol("x-opt-partition-key")


class BadSelectorError(ValueError):
    """The position of a receiver is invalid for the partition."""


@dataclass(frozen=True)
class StoredEvent:
    """An event stored in a partition.

    Attributes:
        sequence_number: the position among the events of the partition, from 0.
        offset: the offset in the partition.
        enqueued_time: the time of arrival, in UTC.
        body: the body.
        properties: the application properties.
        partition_key: the key that determined its partition, if any.
    """

    sequence_number: int
    offset: str
    enqueued_time: datetime
    body: bytes
    properties: Mapping[str, Any]
    partition_key: str | None


@dataclass
class Partition:
    """The events of a partition, encoded as for receivers.

    Attributes:
        messages: the retained events.
        times: their enqueued times in milliseconds, in ascending order.
        first: the sequence number of the first retained event.
        rate: the maximum events per second sent to receivers; None for no limit.
    """

    messages: list[bytes] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    first: int = 0
    rate: float | None = None

    @property
    def end(self) -> int:
        """The sequence number of the next event."""
        return self.first + len(self.messages)

    def append(self, bare: bytes, key: str | None = None, millis: int | None = None) -> int:
        """Add a message without annotations; return its sequence number."""
        number = self.end
        now = int(time.time() * 1000) if millis is None else millis
        millis = max(now, self.times[-1]) if self.times else now
        annotations: dict[Symbol, Any] = {
            Symbol("x-opt-sequence-number"): number,
            Symbol("x-opt-offset"): str(number * OFFSET),
            Symbol("x-opt-enqueued-time"): Timestamp(millis),
        }
        if key is not None:
            annotations[_KEY] = key
        self.messages.append(encode(Described(frames.ANNOTATIONS, annotations)) + bare)
        self.times.append(millis)
        return number

    def expire(self, before: int) -> None:
        """Drop the events with sequence numbers below ``before``."""
        gone = min(max(before - self.first, 0), len(self.messages))
        del self.messages[:gone], self.times[:gone]
        self.first += gone

    def position(self, selector: str | None) -> int:
        """Return the sequence number of the first event selected by a receiver's filter.

        Raises:
            BadSelectorError: the filter is unknown, or selects a future position.
        """
        if not selector:
            return self.first
        found = _SELECTOR.fullmatch(selector.strip())
        if found is None:
            raise BadSelectorError(f"the filter {selector[:100]!r} is not an Event Hubs filter")
        name, operator, value = found.groups()
        after = operator == ">"
        if value == "-1":
            return self.first
        if value == "@latest":
            return self.end
        try:
            number = int(value)
        except ValueError:
            raise BadSelectorError(f"the position {value[:100]!r} is not a number") from None
        if name == "x-opt-enqueued-time":
            find = bisect.bisect_right if after else bisect.bisect_left
            return self.first + find(self.times, number)
        if name == "x-opt-offset":
            number = number // OFFSET if after else -(-number // OFFSET)
        if number + after > self.end:
            raise BadSelectorError(f"the position {value} is after the last event")
        return max(self.first, number + after)

    def event(self, number: int) -> StoredEvent:
        """Return the event with a sequence number, decoded."""
        annotations: dict[str, Any] = {}
        properties: dict[str, Any] = {}
        body = b""
        for code, value, _, _ in sections(self.messages[number - self.first]):
            if code == frames.ANNOTATIONS:
                annotations = value
            elif code == frames.APPLICATION_PROPERTIES:
                properties = value
            elif code == frames.DATA:
                body += value
        millis = self.times[number - self.first]
        return StoredEvent(
            number,
            annotations["x-opt-offset"],
            _EPOCH + timedelta(milliseconds=millis),
            body,
            properties,
            annotations.get("x-opt-partition-key"),
        )


class Hub:
    """An event hub.

    Args:
        partitions: the number of partitions.
    """

    def __init__(self, partitions: int) -> None:
        self.partitions = [Partition() for _ in range(partitions)]
        self._turn = 0

    def store(self, message: bytes, format: int, partition: int | None) -> int:
        """Store a message, or the messages of a batch, in a partition; return its number.

        Raises:
            ValueError: the data is not a message.
        """
        key = None
        inner: list[bytes] = []
        if format == frames.BATCH:
            for code, value, _, _ in sections(message):
                if code == frames.DATA:
                    inner.append(value)
                elif code == frames.ANNOTATIONS:
                    key = value.get(_KEY, key)
        else:
            inner.append(message)
        events = [_bare(event) for event in inner]
        key = next((own for _, own in events if own is not None), key)
        if partition is None:
            partition = self.partition_of(key)
        for bare, own in events:
            self.partitions[partition].append(bare, own if own is not None else key)
        return partition

    def partition_of(self, key: str | None) -> int:
        """Return the partition of a key; without a key, partitions take turns."""
        if key is not None:
            return zlib.crc32(key.encode()) % len(self.partitions)
        self._turn += 1
        return (self._turn - 1) % len(self.partitions)


def _bare(message: bytes) -> tuple[bytes, str | None]:
    """Return a message without the sections that the service replaces, and its partition key."""
    key = None
    kept = []
    for code, value, start, end in sections(message):
        if code == frames.ANNOTATIONS:
            key = value.get(_KEY, key)
        else:
            kept.append(message[start:end])
    return b"".join(kept), key

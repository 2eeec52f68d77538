"""The events of the hubs of a server."""

import bisect
import re
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sparkbeam.eventhubs.amqp import frames
from sparkbeam.eventhubs.amqp.values import Described, Symbol, Timestamp, encode, sections

OFFSET = 100
"""An event's offset is its sequence number times this, so that nobody takes one for the other."""

_SELECTOR = re.compile(r"amqp\.annotation\.(x-opt-[a-z-]+)\s*(>=|>)\s*'([^']*)'")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KEY = Symbol("x-opt-partition-key")


class BadSelectorError(ValueError):
    """A receiver asks for a position that a partition cannot have."""


@dataclass(frozen=True)
class StoredEvent:
    """An event as it is in a partition.

    Attributes:
        sequence_number: counts the events of the partition from 0.
        offset: where it is in the partition.
        enqueued_time: when it came, in UTC.
        body: what was sent.
        properties: what its sender has said beside it.
        partition_key: by which its partition was chosen, if it was.
    """

    sequence_number: int
    offset: str
    enqueued_time: datetime
    body: bytes
    properties: Mapping[str, Any]
    partition_key: str | None


@dataclass
class Partition:
    """The events of a partition, encoded as they are sent to receivers.

    Attributes:
        messages: from the first that has not expired.
        times: when each was enqueued, in milliseconds, never less than the one before.
        first: the sequence number of the first that has not expired.
        rate: how many events a second it lets out; None for no limit.
    """

    messages: list[bytes] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    first: int = 0
    rate: float | None = None

    @property
    def end(self) -> int:
        """The sequence number that the next event will have."""
        return self.first + len(self.messages)

    def append(self, bare: bytes, key: str | None = None, millis: int | None = None) -> int:
        """Adds a message without annotations; its sequence number."""
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
        """Forgets the events with sequence numbers below one."""
        gone = min(max(before - self.first, 0), len(self.messages))
        del self.messages[:gone], self.times[:gone]
        self.first += gone

    def position(self, selector: str | None) -> int:
        """The sequence number of the first event that a filter of a receiver lets through.

        Raises:
            BadSelectorError: the filter is none of Event Hubs, or asks for what is yet to come.
        """
        if not selector:
            return self.first
        found = _SELECTOR.fullmatch(selector.strip())
        if found is None:
            raise BadSelectorError(f"the filter {selector[:100]!r} is none of Event Hubs")
        name, operator, value = found.groups()
        after = operator == ">"
        if value == "-1":
            return self.first
        if value == "@latest":
            return self.end
        try:
            number = int(value)
        except ValueError:
            raise BadSelectorError(f"the position {value[:100]!r} is no number") from None
        if name == "x-opt-enqueued-time":
            find = bisect.bisect_right if after else bisect.bisect_left
            return self.first + find(self.times, number)
        if name == "x-opt-offset":
            number = number // OFFSET if after else -(-number // OFFSET)
        if number + after > self.end:
            raise BadSelectorError(f"the position {value} is behind the last event")
        return max(self.first, number + after)

    def event(self, number: int) -> StoredEvent:
        """The event with a sequence number, for people."""
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
        partitions: how many it has.
    """

    def __init__(self, partitions: int) -> None:
        self.partitions = [Partition() for _ in range(partitions)]
        self._turn = 0

    def store(self, message: bytes, format: int, partition: int | None) -> int:
        """Puts a message, or those of a batch, into one partition; its number.

        Raises:
            ValueError: that is no message.
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
        """Where events of a key go; without one each partition has its turn."""
        if key is not None:
            return zlib.crc32(key.encode()) % len(self.partitions)
        self._turn += 1
        return (self._turn - 1) % len(self.partitions)


def _bare(message: bytes) -> tuple[bytes, str | None]:
    """A message without what the service replaces, and the partition key in that."""
    key = None
    kept = []
    for code, value, start, end in sections(message):
        if code == frames.ANNOTATIONS:
            key = value.get(_KEY, key)
        else:
            kept.append(message[start:end])
    return b"".join(kept), key

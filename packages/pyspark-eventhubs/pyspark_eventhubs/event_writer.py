"""Sending of elements as events, by the tasks of a sink."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from pyspark_eventhubs.checks import is_whole
from pyspark_eventhubs.events import BrokenOffError, EventHubsError, Outgoing
from pyspark_eventhubs.pool import POOL
from pyspark_eventhubs.settings import ConnectionSettings

SENT = "sparkbeam-sent"
"""Property with the origin of an event: sink, micro-batch, task and number, joined by ``/``."""

BATCH_BYTES = 1 << 20
"""Maximum size of a batch in all tiers but the basic one."""

LEAST_BATCH_BYTES, MOST_BATCH_BYTES = 1 << 10, 20 << 20
"""Allowed limits of a batch's size."""

_EVENTS = 500
_ALL_BYTES = 8 << 20
_OVERHEAD = 100
_LARGEST = 2**63


@dataclass(frozen=True)
class Sending:
    """Conversion of elements to events, and their destination.

    Attributes:
        body: returns the body; None for elements that are bytes or texts.
        properties: returns the properties; None for none.
        partition_key: returns the partition key; None for none.
        partition: returns the number of the partition; None for round robin. At least one of the
            two must return None for each element.
        batch_bytes: the maximum size of a batch of events.
        timeout: the seconds for which a batch is retried.
    """

    connection: ConnectionSettings
    body: Callable[[Any], Any] | None = None
    properties: Callable[[Any], Mapping[str, Any]] | None = None
    partition_key: Callable[[Any], str | None] | None = None
    partition: Callable[[Any], int | None] | None = None
    batch_bytes: int = BATCH_BYTES
    timeout: float = 300

    def properties_of(self, element: Any) -> dict[str, Any]:
        """Return the properties of an element; raise :class:`EventHubsError` if unsupported."""
        found = {} if self.properties is None else self.properties(element)
        if not isinstance(found, Mapping):
            raise EventHubsError(
                f"properties: a {type(found).__name__} cannot be the properties of an event: "
                "return a dictionary."
            )
        check_properties(found)
        return dict(found)

    def key_of(self, element: Any) -> str | None:
        """Return the partition key of an element; raise :class:`EventHubsError` if unsupported."""
        found = None if self.partition_key is None else self.partition_key(element)
        if found is not None:
            if not isinstance(found, str):
                raise EventHubsError(
                    f"partition_key: a {type(found).__name__} cannot be the key of an event: "
                    "return a string or None."
                )
            _encoded("partition_key", found)
        return found


Target = tuple[str | None, str | None]
"""Destination of an event: a partition, a key, or neither."""


@dataclass
class _Waiting:
    events: list[Outgoing] = field(default_factory=list)
    size: int = 0


class HubWriter:
    """Sender of a task's elements.

    Batches and their partitions depend on the elements only, so that a repeated task sends the same
    events to the same partitions in the same order.
    """

    def __init__(self, sending: Sending, sink_id: str = "") -> None:
        self._sending = sending
        self._sink_id = sink_id
        self._task = ""
        self._partitions: list[str] = []
        self._turn = 0
        self._number = 0
        self._waiting: dict[Target, _Waiting] = {}
        self._size = 0

    def open(self, partition_id: int, epoch_id: int) -> bool:
        """Begin to send; always returns True."""
        self._task = f"{self._sink_id}/{epoch_id}/{partition_id}"
        self._turn = partition_id
        return True

    def process(self, element: Any) -> None:
        """Send an element, or keep it for a batch."""
        sending = self._sending
        body = body_of(element if sending.body is None else sending.body(element))
        properties = sending.properties_of(element)
        properties[SENT] = f"{self._task}/{self._number}"
        self._number += 1
        target = self._target(element)
        size = len(body) + _OVERHEAD + sum(len(str(item)) for p in properties.items() for item in p)
        waiting = self._waiting.setdefault(target, _Waiting())
        if waiting.events and waiting.size + size > sending.batch_bytes:
            self._send(target)
            target = self._target(element)
            waiting = self._waiting.setdefault(target, _Waiting())
        waiting.events.append(Outgoing(body, properties))
        waiting.size += size
        self._size += size
        if len(waiting.events) >= _EVENTS:
            self._send(target)
        if self._size > _ALL_BYTES:
            self._send_all()

    def _target(self, element: Any) -> Target:
        sending = self._sending
        number = None if sending.partition is None else sending.partition(element)
        key = sending.key_of(element)
        if number is not None:
            if key is not None:
                raise EventHubsError(
                    "An event has both partition_id and partition_key: give only one."
                )
            if not is_whole(number) or str(number) not in self._known():
                raise EventHubsError(f"partition_id: the event hub has no partition {number!r}.")
            return str(number), None
        if key is not None:
            return None, key
        known = self._known()
        return known[self._turn % len(known)], None

    def _known(self) -> list[str]:
        """Return the partitions of the event hub."""
        if not self._partitions:
            self._again(lambda client: self._partitions.extend(client.partitions()))
        return self._partitions

    def _send(self, target: Target) -> None:
        waiting = self._waiting.pop(target)
        self._size -= waiting.size
        self._turn += 1
        self._again(lambda client: client.send(waiting.events, *target))

    def _send_all(self) -> None:
        for target in list(self._waiting):
            self._send(target)

    def _again(self, ask: Callable[[Any], None]) -> None:
        """Retry a request until it succeeds or fails permanently."""
        end = time.monotonic() + self._sending.timeout
        while True:
            try:
                with POOL.client(self._sending.connection) as client:
                    ask(client)
                return
            except BrokenOffError as error:
                if time.monotonic() + error.wait > end:
                    raise
                time.sleep(error.wait)

    def close(self, error: Exception | None) -> None:
        """Send the rest, unless there was an error."""
        if error is None:
            self._send_all()


def body_of(value: Any) -> bytes:
    """Return the body of an event.

    Raises:
        EventHubsError: the value cannot be a body.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return _encoded("body", value)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise EventHubsError(
        f"a {type(value).__name__} cannot be the body of an event: use bytes or strings, or "
        "body=, a function that returns them."
    )


def check_properties(properties: Mapping[str, Any]) -> None:
    """Raise :class:`EventHubsError` if properties are not supported."""
    for name, value in properties.items():
        kind = type(value)
        if not isinstance(name, str):
            raise EventHubsError(f"properties: the name {name!r} is not a string.")
        for part in (name, value):
            if isinstance(part, str):
                _encoded(f"properties: {name!r}", part)
        if kind is int and not -_LARGEST <= value < _LARGEST:
            raise EventHubsError(f"properties: {name!r} exceeds 64 bits.")
        if kind not in _PLAIN:
            raise EventHubsError(
                f"properties: {name!r} is a {kind.__name__}: use a string, number, bool, "
                "bytes, datetime or None."
            )


def _encoded(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise EventHubsError(f"{what}: not valid Unicode: {error.reason}.") from None


_PLAIN = frozenset([str, int, float, bool, bytes, datetime, UUID, type(None)])

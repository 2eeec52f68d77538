"""Elements as events of a hub: what a task of a sink does."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sparkbeam.eventhubs.client import BrokenOffError, EventHubsError, Outgoing
from sparkbeam.eventhubs.pool import POOL
from sparkbeam.eventhubs.settings import Connection

SENT = "sparkbeam-sent"
"""The property that tells who has sent an event: run, micro-batch, task and number, by ``/``."""

BATCH_BYTES = 1 << 20
"""What a hub takes at once, in all tiers but the basic one."""

LEAST_BATCH_BYTES, MOST_BATCH_BYTES = 1 << 10, 20 << 20
"""What a batch may be limited to."""

_EVENTS = 500
_ALL_BYTES = 8 << 20
_OVERHEAD = 100
_LARGEST = 2**63


@dataclass(frozen=True)
class Sending:
    """What is made of an element, and where it goes.

    Attributes:
        connection: to the event hub.
        body: gives the body; None for elements that are bytes or texts.
        properties: gives the properties; None for none.
        partition_key: gives the partition key; None for none.
        partition: gives the number of the partition; None to go from one to the next. Of one
            element either of the two may give None, and has to.
        batch_bytes: of how many bytes of events a batch is made at most.
        timeout: seconds for which a batch is tried again.
    """

    connection: Connection
    body: Callable[[Any], Any] | None = None
    properties: Callable[[Any], Mapping[str, Any]] | None = None
    partition_key: Callable[[Any], str | None] | None = None
    partition: Callable[[Any], int | None] | None = None
    batch_bytes: int = BATCH_BYTES
    timeout: float = 300


Target = tuple[str | None, str | None]
"""A partition or a key, or neither."""


@dataclass
class _Waiting:
    events: list[Outgoing] = field(default_factory=list)
    size: int = 0


class HubWriter:
    """Sends the elements of a task; a writer as those of :class:`sparkbeam.io.Foreach`.

    Which events make a batch and which partition it goes to depends on the elements alone, so
    that a task that runs again sends the same to the same places in the same order.

    Args:
        sending: what becomes of an element.
    """

    def __init__(self, sending: Sending) -> None:
        self._sending = sending
        self._run = ""
        self._task = ""
        self._partitions: list[str] = []
        self._turn = 0
        self._number = 0
        self._waiting: dict[Target, _Waiting] = {}
        self._size = 0

    def of_run(self, run: str) -> None:
        """Told before :meth:`open`: what tells the run, or the checkpoint, from all others."""
        self._run = run

    def open(self, partition_id: int, epoch_id: int) -> bool:
        self._task = f"{self._run}/{epoch_id}/{partition_id}"
        self._turn = partition_id
        return True

    def process(self, element: Any) -> None:
        sending = self._sending
        body = body_of(element if sending.body is None else sending.body(element))
        properties = {} if sending.properties is None else dict(sending.properties(element))
        check_properties(properties)
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
        key = None if sending.partition_key is None else sending.partition_key(element)
        if number is not None:
            if key is not None:
                raise EventHubsError("An event has partition_id and partition_key: give one.")
            if not isinstance(number, int) or str(number) not in self._known():
                raise EventHubsError(f"partition_id: the event hub has no partition {number!r}.")
            return str(number), None
        if key is not None:
            return None, str(key)
        known = self._known()
        return known[self._turn % len(known)], None

    def _known(self) -> list[str]:
        """The partitions of the event hub."""
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
        """Asks for something until it is done, or it will never be."""
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
        if error is None:
            self._send_all()


def body_of(value: Any) -> bytes:
    """The body of an event.

    Raises:
        EventHubsError: that can be none.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return _encoded("body", value)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise EventHubsError(
        f"a {type(value).__name__} cannot be the body of an event: give bytes or texts, or body=, "
        "a function that makes them."
    )


def check_properties(properties: Mapping[str, Any]) -> None:
    """Raises :class:`EventHubsError` if an event cannot have these."""
    for name, value in properties.items():
        kind = type(value)
        if not isinstance(name, str):
            raise EventHubsError(f"properties: the name {name!r} is no text.")
        for part in (name, value):
            if isinstance(part, str):
                _encoded(f"properties: {name!r}", part)
        if kind is int and not -_LARGEST <= value < _LARGEST:
            raise EventHubsError(f"properties: {name!r} has more than 64 bits.")
        if kind not in _PLAIN:
            raise EventHubsError(
                f"properties: {name!r} is a {kind.__name__}: give a text, number, truth value, "
                "bytes, datetime or None."
            )


def _encoded(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise EventHubsError(f"{what}: this is no text of Unicode: {error.reason}.") from None


_PLAIN = frozenset([str, int, float, bool, bytes, datetime, UUID, type(None)])

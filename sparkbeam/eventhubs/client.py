"""Interface of Event Hubs clients for the data source; there are two implementations.

:mod:`sparkbeam.eventhubs.sdk_client` is based on Azure's SDK,
:mod:`sparkbeam.eventhubs.slim_client` implements AMQP itself. ``tests/eventhubs/test_clients.py``
tests the contract.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sparkbeam.common.display_text import beginning


class EventHubsError(Exception):
    """The service permanently refuses a request."""


class BrokenOffError(EventHubsError):
    """A connection, a link or a request has failed; a retry may succeed.

    Attributes:
        wait: the seconds to wait before a retry.
    """

    def __init__(self, message: str, wait: float = 0.2) -> None:
        super().__init__(message)
        self.wait = wait


class StolenError(BrokenOffError):
    """Another receiver of the partition with the same or a higher epoch has taken over."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 1)


@dataclass(frozen=True)
class Bounds:
    """The range of events in a partition.

    Attributes:
        first: the sequence number of the oldest event.
        end: the sequence number of the next event.
        newest: the enqueued time of the newest event, in milliseconds.
    """

    first: int
    end: int
    newest: int


@dataclass
class Events:
    """Consecutive events of one partition, as columns of equal length.

    Attributes:
        numbers: the sequence numbers.
        offsets: the offsets.
        times: the enqueued times, in milliseconds.
        publishers: the publishers, if known.
        keys: the partition keys.
        properties: the application properties, with names and values as text.
        system: other annotations and message properties, as text.
        bodies: the bodies.
        again: whether they were read before, and come from memory.
    """

    numbers: list[int] = field(default_factory=list)
    offsets: list[str | None] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    publishers: list[str | None] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    properties: list[list[tuple[str, str | None]]] = field(default_factory=list)
    system: list[list[tuple[str, str | None]]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    again: bool = field(default=False, kw_only=True)

    def __len__(self) -> int:
        return len(self.numbers)

    def columns(self) -> tuple[list[Any], ...]:
        """Return all columns."""
        return (
            self.numbers,
            self.offsets,
            self.times,
            self.publishers,
            self.keys,
            self.properties,
            self.system,
            self.bodies,
        )


@dataclass(frozen=True)
class Outgoing:
    """An event to send.

    Attributes:
        body: the body of the event.
        properties: its application properties: texts, numbers and bools.
    """

    body: bytes
    properties: Mapping[str, Any] = field(default_factory=dict)


class Receiver(Protocol):
    """Sequential reader of one partition.

    Attributes:
        position: the sequence number of the next event.
    """

    position: int

    def read(self, end: int, seconds: float) -> Events:
        """Return the next events with sequence numbers below ``end``; none on timeout.

        It requests only these, so that an idle receiver holds no events.

        Raises:
            BrokenOffError: the receiver has failed; another one may be opened at its position.
            EventHubsError: the receiver has failed permanently.
        """

    def close(self) -> None:
        """Close the receiver."""


class Client(Protocol):
    """Connection to one event hub; after an error it reconnects on the next use."""

    def partitions(self) -> list[str]:
        """Return the partition ids.

        Raises:
            BrokenOffError: a retry may succeed.
            EventHubsError: the request is refused.
        """

    def bounds(self, partitions: Iterable[str]) -> dict[str, Bounds]:
        """Return the ranges of events in partitions; raises like :meth:`partitions`."""

    def receiver(
        self,
        group: str,
        partition: str,
        start: "int | StartPlace",
        epoch: int | None,
        prefetch: int,
    ) -> Receiver:
        """Open a receiver at a sequence number or a place.

        Args:
            group: the consumer group.
            partition: the partition id.
            start: the sequence number of the first event, or a place.
            epoch: disconnects receivers with lower epochs; None for a non-exclusive receiver.
            prefetch: the maximum number of events to read ahead.

        Raises:
            BrokenOffError: a retry may succeed.
            EventHubsError: the receiver is refused.
        """

    def send(self, events: Sequence[Outgoing], partition: str | None, key: str | None) -> None:
        """Send events to one partition in one or more batches, and wait until they are accepted.

        Args:
            events: the events in order.
            partition: the target partition; None for any.
            key: the partition key, if the service chooses the partition.

        Raises:
            BrokenOffError: only a prefix of the events may have been accepted; a retry may succeed.
            EventHubsError: the events are refused.
        """

    def close(self) -> None:
        """Close the client with all its connections."""


@dataclass(frozen=True)
class StartPlace:
    """A position of a receiver other than a sequence number.

    Attributes:
        offset: the minimum offset of the first event.
        millis: the minimum enqueued time of the first event.
    """

    offset: str | None = None
    millis: int | None = None


def error_of(condition: str, description: str, doing: str) -> EventHubsError:
    """Return the exception for an error of the service, without secrets."""
    said = beginning(f"{condition}: {description}".strip(": "), 400)
    message = f"{doing}: {said}" if said else doing
    if condition == "amqp:link:stolen":
        return StolenError(message)
    if condition == "com.microsoft:server-busy":
        return BrokenOffError(message, 4)
    if condition in _FINAL:
        return EventHubsError(message)
    return BrokenOffError(message)


_FINAL = frozenset(
    [
        "amqp:not-found",
        "amqp:unauthorized-access",
        "amqp:not-allowed",
        "amqp:resource-limit-exceeded",
        "amqp:link:message-size-exceeded",
        "com.microsoft:argument-error",
        "com.microsoft:auth-failed",
        "com.microsoft:entity-disabled",
    ]
)


def as_text(value: Any) -> str | None:
    """Convert an AMQP value for a column of texts."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(float(value)) if isinstance(value, float) else str(value)

"""What the data source wants of a client of Event Hubs; there are two of them.

:mod:`sparkbeam.eventhubs.sdk_client` is over the SDK of Azure,
:mod:`sparkbeam.eventhubs.slim_client` speaks AMQP itself.
``tests/eventhubs/test_clients.py`` is their contract.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sparkbeam.common.display_text import beginning


class EventHubsError(Exception):
    """The service refuses something, and will do so again."""


class BrokenOffError(EventHubsError):
    """A connection, a link or a request has failed; it may work when it is tried again.

    Attributes:
        wait: how many seconds to wait before.
    """

    def __init__(self, message: str, wait: float = 0.2) -> None:
        super().__init__(message)
        self.wait = wait


class StolenError(BrokenOffError):
    """Another receiver of the partition, of the same epoch or a higher one, has taken over."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 1)


@dataclass(frozen=True)
class Bounds:
    """Which events a partition has.

    Attributes:
        first: the sequence number of the oldest.
        end: the sequence number that the next one will have.
        newest: when the newest was enqueued, in milliseconds.
    """

    first: int
    end: int
    newest: int


@dataclass
class Events:
    """Events of one partition, in order, as columns of equal length.

    Attributes:
        numbers: the sequence numbers.
        offsets: the offsets.
        times: when they were enqueued, in milliseconds.
        publishers: who has sent them, where that is told.
        keys: the partition keys.
        properties: those of the sender, names and values as texts.
        system: other annotations and properties of the message, as texts.
        bodies: what was sent.
        again: they have been read before, and come from memory.
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
        """All columns."""
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
        body: of the event.
        properties: beside it; texts, numbers and truth values.
    """

    body: bytes
    properties: Mapping[str, Any] = field(default_factory=dict)


class Receiver(Protocol):
    """Reads one partition, event after event.

    Attributes:
        position: the sequence number of the next event that it gives.
    """

    position: int

    def read(self, end: int, seconds: float) -> Events:
        """The next events with sequence numbers below an end; none if none came in time.

        It asks for no more than these, so that a receiver that is kept holds no events.

        Raises:
            BrokenOffError: it has ended; another one may be opened where it was.
            EventHubsError: it has ended for good.
        """

    def close(self) -> None:
        """Ends it."""


class Client(Protocol):
    """Speaks with one event hub; after an error it connects anew when it is used again."""

    def partitions(self) -> list[str]:
        """The ids of its partitions.

        Raises:
            BrokenOffError: try again.
            EventHubsError: it will not tell.
        """

    def bounds(self, partitions: Iterable[str]) -> dict[str, Bounds]:
        """Which events partitions have; raises as :meth:`partitions` does."""

    def receiver(
        self, group: str, partition: str, start: "int | Place", epoch: int | None, prefetch: int
    ) -> Receiver:
        """A receiver from a sequence number or a place on.

        Args:
            group: the consumer group.
            partition: what to read.
            start: the sequence number of the first event, or a place.
            epoch: receivers of lower ones are ended; None to be one of several.
            prefetch: of how many events it may be ahead.

        Raises:
            BrokenOffError: try again.
            EventHubsError: it will not be opened.
        """

    def send(self, events: Sequence[Outgoing], partition: str | None, key: str | None) -> None:
        """Sends events to one partition, in one batch or several, and waits until they are kept.

        Args:
            events: in their order.
            partition: where to; None to let the service choose.
            key: by which the service chooses it, the same for the same key.

        Raises:
            BrokenOffError: some of them may have been kept, in their order; try again.
            EventHubsError: it will not take them.
        """

    def close(self) -> None:
        """Ends it with all of its connections."""


@dataclass(frozen=True)
class Place:
    """Where a receiver begins that does not know the sequence number.

    Attributes:
        offset: of the event before the first, or the first if it is inclusive.
        millis: when the first was enqueued, at the earliest.
        inclusive: see offset.
    """

    offset: str | None = None
    millis: int | None = None
    inclusive: bool = True


def error_of(condition: str, description: str, doing: str) -> EventHubsError:
    """The error for what the service has said, without what is secret in it."""
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
    """A value of AMQP as a column of texts has it."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(float(value)) if isinstance(value, float) else str(value)

"""Events, positions and errors of the client of Event Hubs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark_eventhubs.checks import beginning


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
    """

    numbers: list[int] = field(default_factory=list)
    offsets: list[str | None] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    publishers: list[str | None] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    properties: list[list[tuple[str, str | None]]] = field(default_factory=list)
    system: list[list[tuple[str, str | None]]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.numbers)

    def columns(self) -> tuple[list[Any], ...]:
        """Return all columns."""
        return tuple(vars(self).values())


@dataclass(frozen=True)
class Outgoing:
    """An event to send.

    Attributes:
        body: the body of the event.
        properties: its application properties: texts, numbers and bools.
    """

    body: bytes
    properties: Mapping[str, Any] = field(default_factory=dict)


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
    said = beginning(" ".join(f"{condition}: {description}".strip(": ").split()), 400)
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

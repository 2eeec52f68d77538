"""Event Hubs client based on Azure's SDK, ``azure-eventhub``."""

import contextlib
import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from sparkbeam.errors import ConfigurationError
from sparkbeam.eventhubs.client import (
    Bounds,
    BrokenOffError,
    EventHubsError,
    Events,
    Outgoing,
    StartPlace,
    as_text,
    error_of,
)
from sparkbeam.eventhubs.settings import ConnectionSettings
from sparkbeam.upstream.azure import Consumer, Management, as_property

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OPEN_SECONDS = 60
_SEND_SECONDS = 60
_ANNOTATIONS = (
    b"x-opt-sequence-number",
    b"x-opt-offset",
    b"x-opt-enqueued-time",
    b"x-opt-partition-key",
    b"x-opt-publisher",
)


class SdkClient:
    """Client over the SDK, with a connection for management, and one per receiver and sender.

    Args:
        connection: the settings of the connection.

    Raises:
        ConfigurationError: the SDK is not installed, or the connection is not supported.
    """

    def __init__(self, connection: ConnectionSettings) -> None:
        self._azure = _sdk()
        self._connection = connection
        self._hub = connection.hub_of(connection.endpoint())
        self._consumer = self._made("EventHubConsumerClient", "$Default")
        self._management: Management | None = None
        self._producer: Any = None

    def _made(self, name: str, *group: str) -> Any:
        """Create a client of the SDK, without opening it."""
        kind = getattr(self._azure, name)
        named = {"consumer_group": group[0]} if group else {}
        if self._connection.namespace is not None:
            return kind(
                fully_qualified_namespace=self._connection.namespace,
                eventhub_name=self._hub,
                credential=self._connection.azure_credential(),
                retry_total=0,
                **named,
            )
        endpoint = self._connection.endpoint()
        signed = (
            f"SharedAccessSignature={endpoint.signature}"
            if endpoint.signature is not None
            else f"SharedAccessKeyName={endpoint.key_name};SharedAccessKey={endpoint.key}"
        )
        emulator = "" if endpoint.tls else ";UseDevelopmentEmulator=true"
        return kind.from_connection_string(
            f"Endpoint=sb://{endpoint.host}/;{signed}{emulator}",
            eventhub_name=self._hub,
            retry_total=0,
            **named,
        )

    def partitions(self) -> list[str]:
        with _errors(f"the event hub '{self._hub}' does not list its partitions"):
            return [as_text(partition) or "" for partition in self._asked()[b"partition_ids"]]

    def bounds(self, partitions: Iterable[str]) -> dict[str, Bounds]:
        with _errors(f"the event hub '{self._hub}' does not provide the state of its partitions"):
            return {partition: self._bounds(partition) for partition in partitions}

    def _bounds(self, partition: str) -> Bounds:
        found = self._asked(partition)
        end = found[b"last_enqueued_sequence_number"] + 1
        first = end if found[b"is_partition_empty"] else found[b"begin_sequence_number"]
        return Bounds(max(0, first), max(0, end), found[b"last_enqueued_time_utc"])

    def _asked(self, partition: str | None = None) -> Mapping[bytes, Any]:
        """Return the management properties of the hub or of a partition."""
        try:
            if self._management is None:
                self._management = Management(self._consumer)
            status, said, found = self._management.ask(partition)
        except Exception:
            self._forget_management()
            raise
        if status >= 300:
            doing = f"the event hub '{self._hub}' does not provide information about its partitions"
            raise error_of(_CONDITIONS.get(status, ""), f"{status} {said}", doing)
        return found

    def _forget_management(self) -> None:
        if self._management is not None:
            with contextlib.suppress(Exception):
                self._management.close()
            self._management = None

    def receiver(
        self, group: str, partition: str, start: int | StartPlace, epoch: int | None, prefetch: int
    ) -> "SdkReceiver":
        what = f"partition {partition} of the event hub '{self._hub}' cannot be read"
        # The names of consumer groups are in what its token is for.
        client = self._consumer if group == "$Default" else self._made(_CONSUMER, group)
        with _errors(what):
            return SdkReceiver(client, group, partition, start, epoch, prefetch, what)

    def send(self, events: Sequence[Outgoing], partition: str | None, key: str | None) -> None:
        with _errors(f"the event hub '{self._hub}' does not accept events"):
            if self._producer is None:
                self._producer = self._made("EventHubProducerClient")
            where = {"partition_id": partition, "partition_key": key}
            batch = self._producer.create_batch(**where)
            for event in events:
                made = self._azure.EventData(event.body)
                made.properties = {
                    name: as_property(value) for name, value in event.properties.items()
                }
                try:
                    batch.add(made)
                except ValueError:
                    if not len(batch):
                        raise EventHubsError(_too_large(len(event.body))) from None
                    self._producer.send_batch(batch, timeout=_SEND_SECONDS)
                    batch = self._producer.create_batch(**where)
                    _add_first(batch, made, len(event.body))
            if len(batch):
                self._producer.send_batch(batch, timeout=_SEND_SECONDS)

    def close(self) -> None:
        self._forget_management()
        for client in (self._producer, self._consumer):
            if client is not None:
                with contextlib.suppress(Exception):
                    client.close()


_CONSUMER = "EventHubConsumerClient"


def _add_first(batch: Any, event: Any, size: int) -> None:
    try:
        batch.add(event)
    except ValueError:
        raise EventHubsError(_too_large(size)) from None


def _too_large(size: int) -> str:
    return f"an event of {size} bytes is too large for the event hub"


class SdkReceiver:
    """Receiver over a link of the SDK.

    Args:
        client: of the SDK.
        group: the consumer group.
        partition: the partition id.
        start: the first event.
        epoch: of the receiver.
        prefetch: the maximum number of events to read ahead.
        what: the operation to name in errors.
    """

    def __init__(
        self,
        client: Any,
        group: str,
        partition: str,
        start: int | StartPlace,
        epoch: int | None,
        prefetch: int,
        what: str,
    ) -> None:
        self.position = start if isinstance(start, int) else 0
        self._what = what
        self._prefetch = prefetch
        self._waiting: deque[Any] = deque()
        self._next = self.position
        self._consumer = Consumer(client, group, partition, _sdk_position(start), epoch)
        deadline = time.monotonic() + _OPEN_SECONDS
        try:
            while not self._consumer.is_open():
                if time.monotonic() > deadline:
                    raise BrokenOffError(f"{what}: it was not opened in {_OPEN_SECONDS} s")
        except Exception:
            self.close()
            raise

    def read(self, end: int, seconds: float) -> Events:
        deadline = time.monotonic() + seconds
        enough = max(1, min(self._prefetch // 2, end - self.position))
        with _errors(self._what):
            while len(self._waiting) < enough and self._next < end:
                self._ask(end)
                self._consumer.work()
                came = self._consumer.messages()
                if came:
                    self._waiting.extend(came)
                    self._next = _number(came[-1]) + 1
                elif self._waiting or time.monotonic() > deadline:
                    break
        found = Events()
        while self._waiting and _number(self._waiting[0]) < end:
            _take(self._waiting.popleft(), found)
        if found.numbers:
            self.position = found.numbers[-1] + 1
        return found

    def _ask(self, end: int) -> None:
        """Request the wanted events from the service, and no more."""
        wanted = min(self._prefetch, end - self._next)
        if self._consumer.credit <= wanted // 2:
            self._consumer.ask(wanted)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._consumer.close()


def _sdk_position(start: int | StartPlace) -> Any:
    if isinstance(start, int):
        return start
    if start.millis is not None:
        return _EPOCH + timedelta(milliseconds=start.millis)
    return start.offset


def _number(message: Any) -> int:
    return int(message.message_annotations[b"x-opt-sequence-number"])


def _take(message: Any, into: Events) -> None:
    annotations = dict(message.message_annotations)
    number, offset, enqueued, key, publisher = (annotations.pop(n, None) for n in _ANNOTATIONS)
    into.numbers.append(number)
    into.offsets.append(as_text(offset))
    into.times.append(enqueued)
    into.keys.append(as_text(key))
    into.publishers.append(as_text(publisher))
    into.properties.append(list(_texts((message.application_properties or {}).items())))
    into.system.append(list(_texts([*annotations.items(), *_message_properties(message)])))
    into.bodies.append(_body(message))


def _texts(pairs: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, str | None]]:
    for name, value in pairs:
        yield as_text(name) or "", as_text(value)


def _message_properties(message: Any) -> Iterator[tuple[str, Any]]:
    found = message.properties
    if found is None:
        return
    for name, value in zip(found._fields, found, strict=True):
        if value is not None:
            yield name.replace("_", "-"), value


def _body(message: Any) -> bytes:
    if message.data:
        parts: list[bytes] = message.data
        return parts[0] if len(parts) == 1 else b"".join(parts)
    if message.value is not None:
        value = message.value
        return value if isinstance(value, bytes) else (as_text(value) or "").encode()
    return b""


_CONDITIONS = {
    400: "com.microsoft:argument-error",
    401: "amqp:unauthorized-access",
    404: "amqp:not-found",
    503: "com.microsoft:server-busy",
}

_UNAUTHORIZED = ("AuthenticationError", "AuthenticationException", "TokenAuthFailure")


@contextmanager
def _errors(doing: str) -> Iterator[None]:
    """Convert errors of the SDK to those of this package, without secrets."""
    try:
        yield
    except (EventHubsError, ConfigurationError):
        raise
    except Exception as error:
        raise _translated(error, doing) from None


def _translated(error: Exception, doing: str) -> EventHubsError:
    condition = description = ""
    inner: Any = error
    while inner is not None and not condition:
        found = getattr(inner, "condition", None)
        condition = as_text(getattr(found, "value", found)) or ""
        description = as_text(getattr(inner, "description", None)) or ""
        details = getattr(inner, "details", None)
        inner = details if isinstance(details, Exception) else inner.__cause__
    if type(error).__name__ in _UNAUTHORIZED or "401" in description:
        condition = "amqp:unauthorized-access"
    return error_of(condition, description or f"{type(error).__name__} {error}", doing)


def _sdk() -> Any:
    """Return the SDK's module.

    Raises:
        ConfigurationError: it is not installed.
    """
    try:
        import azure.eventhub
    except ImportError:
        raise ConfigurationError(
            "Event Hubs needs the package azure-eventhub: pip install 'sparkbeam[eventhubs]', on "
            "the executors too."
        ) from None
    logger = logging.getLogger("azure.eventhub")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.ERROR)  # Otherwise it logs each opened and closed link.
    return azure.eventhub

"""Event Hubs server, in a separate thread."""

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from pyspark_eventhubs.amqp import frames
from pyspark_eventhubs.amqp.values import Described, encode
from pyspark_eventhubs.server.connection import ServerConnection
from pyspark_eventhubs.server.event_store import Hub, Partition, StoredEvent
from pyspark_eventhubs.server.shared_state import RequestCounts, State

T = TypeVar("T")

_KEY = "c3BhcmtiZWFt"
_SECONDS = 30


class EventHubsServer:
    """In-memory event hubs for tests: AMQP 1.0 on the loopback interface.

    It supports the protocol features used by the Azure SDK and Spark's readers: tokens, properties
    of hubs and partitions, receivers from a sequence number, offset or time with credit and epochs,
    single events and batches. Faults of the real service can be injected:

    ::

        with EventHubsServer({"clicks": 4}) as server:
            server.send("clicks", [b"one", b"two"], partition=0)
            run(server.connection_string("clicks"))

    Args:
        hubs: the number of partitions of each hub.
        key: the shared access key that signs the clients' tokens.
        port: the port to listen on; 0 for any free one.
        tls: a context with the certificate of the server; None for plain TCP, as in an emulator.

    Raises:
        ValueError: a hub has no partitions.
    """

    def __init__(
        self,
        hubs: Mapping[str, int],
        *,
        key: str = _KEY,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        for name, partitions in hubs.items():
            if not name or "/" in name or partitions < 1:
                raise ValueError(
                    f"hubs={{{name!r}: {partitions}}}: give a name without '/' and the number of "
                    "partitions, at least 1."
                )
        self._state = State({name: Hub(number) for name, number in hubs.items()}, key)
        self._asked_port = port
        self._tls = tls
        self._connections: set[ServerConnection] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="sparkbeam-eventhubs", daemon=True)
        self._server: asyncio.Server | None = None
        self.port = 0
        """Port on which the started server listens."""

    def start(self) -> Self:
        """Start listening.

        Raises:
            OSError: the port is in use.
        """
        self._thread.start()
        made = self._loop.create_server(
            lambda: ServerConnection(self._state, self._connections),
            "127.0.0.1",
            self._asked_port,
            ssl=self._tls,
        )
        self._server = asyncio.run_coroutine_threadsafe(_started(made), self._loop).result(_SECONDS)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def stop(self) -> None:
        """Close all connections and stop listening."""
        if self._thread.is_alive():
            self._do(self._close)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_SECONDS)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def connection_string(self, hub: str | None = None) -> str:
        """Return the connection string for clients, with the name of a hub if given."""
        parts = [
            f"Endpoint=sb://localhost:{self.port}",
            "SharedAccessKeyName=test",
            f"SharedAccessKey={self._state.key}",
            *([f"EntityPath={hub}"] if hub is not None else []),
            *([] if self._tls is not None else ["UseDevelopmentEmulator=true"]),
        ]
        return ";".join(parts)

    def send(
        self,
        hub: str,
        bodies: Iterable[bytes],
        *,
        partition: int | None = None,
        partition_key: str | None = None,
        properties: Mapping[str, Any] | None = None,
        enqueued: datetime | None = None,
    ) -> None:
        """Add events to a hub, as if each had been sent by a client.

        Args:
            hub: the name of the hub.
            bodies: the bodies of the events.
            partition: the target partition; by key, or in turn, if None.
            partition_key: the partition key of the events.
            properties: the application properties of the events, with values supported by AMQP.
            enqueued: the enqueued time, with a time zone; now if None.
        """
        millis = None if enqueued is None else round(enqueued.timestamp() * 1000)
        head = encode(Described(frames.APPLICATION_PROPERTIES, dict(properties or {})))
        head = head if properties else b""
        messages = [head + encode(Described(frames.DATA, bytes(body))) for body in bodies]

        def put() -> None:
            found = self._state.hubs[hub]
            for message in messages:
                at = found.partition_of(partition_key) if partition is None else partition
                found.partitions[at].append(message, partition_key, millis)
            for at in range(len(found.partitions)):
                self._state.pump(hub, at)

        self._do(put)

    def events(self, hub: str, partition: int) -> list[StoredEvent]:
        """Return the retained events of a partition."""

        def get() -> list[StoredEvent]:
            found = self._state.hubs[hub].partitions[partition]
            return [found.event(number) for number in range(found.first, found.end)]

        return self._do(get)

    def counts(self) -> RequestCounts:
        """Return the number of client requests so far, by kind."""
        return self._do(lambda: replace(self._state.counts))

    def connections(self) -> int:
        """Return the number of open connections."""
        return self._do(lambda: len(self._connections))

    def expire(self, hub: str, partition: int, before: int) -> None:
        """Drop events with sequence numbers below ``before``, like the end of their retention."""
        self._do(lambda: self._partition(hub, partition).expire(before))

    def grow(self, hub: str, partitions: int) -> None:
        """Increase the number of partitions of a hub."""

        def more() -> None:
            found = self._state.hubs[hub].partitions
            found.extend(Partition() for _ in range(partitions - len(found)))

        self._do(more)

    def steal(self, hub: str, partition: int) -> None:
        """Disconnect all receivers of a partition, like a receiver with a higher epoch."""

        def take() -> None:
            for (name, _, number), readers in self._state.readers.items():
                if name == hub and number == str(partition):
                    for reader in list(readers):
                        reader.stolen("A new receiver with a higher epoch was created.")

        self._do(take)

    def slow_down(self, hub: str, partition: int, rate: float | None) -> None:
        """Limit the events per second that are sent of a partition; None for no limit."""

        def limit() -> None:
            self._partition(hub, partition).rate = rate

        self._do(limit)

    def be_busy(self, operations: int) -> None:
        """Answer the next receivers, sends and requests by a busy error."""
        self._set(busy=operations)

    def reset_connection(self, after_events: int) -> None:
        """Reset the connection that sends the event after ``after_events``, within its frame."""
        self._set(reset_after=after_events)

    def freeze(self) -> None:
        """Stop reading and writing, while connections stay open."""
        self._set(frozen=True)

    def thaw(self) -> None:
        """Accept new connections again, and close those from before."""

        def end() -> None:
            self._state.faults.frozen = False
            for connection in list(self._connections):
                connection.break_off(b"")

        self._do(end)

    def _set(self, **faults: Any) -> None:
        def change() -> None:
            self._state.faults = replace(self._state.faults, **faults)

        self._do(change)

    def _partition(self, hub: str, partition: int) -> Partition:
        return self._state.hubs[hub].partitions[partition]

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.break_off(b"")

    def _do(self, function: Callable[[], T]) -> T:
        """Call a function in the server's thread, and wait for its result."""
        if not self._thread.is_alive():
            raise RuntimeError(
                "The server is not running: call start(), or use it in a with statement."
            )
        return asyncio.run_coroutine_threadsafe(_called(function), self._loop).result(_SECONDS)


async def _called(function: Callable[[], T]) -> T:
    return function()


async def _started(made: Any) -> asyncio.Server:
    server: asyncio.Server = await made
    return server

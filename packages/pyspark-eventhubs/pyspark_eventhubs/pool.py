"""Pool of the clients and receivers that a process keeps open between micro-batches."""

import contextlib
import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark_eventhubs.amqp_client import AmqpClient, AmqpReceiver
from pyspark_eventhubs.events import EventHubsError, Events, StartPlace
from pyspark_eventhubs.receiver_sharing import Neighbours, default_folder, name_of
from pyspark_eventhubs.settings import ConnectionSettings

_CLIENT_SECONDS = 300
_RECEIVER_SECONDS = 60
"""Idle seconds until a receiver with an epoch is closed, as it excludes others from its group."""
_LOOK_SECONDS = 10.0

_PATIENCE = 0.25
_NOWHERE = -1


@dataclass(frozen=True)
class ReceiverSettings:
    """The settings of a receiver.

    Attributes:
        epoch: of the receiver; None for none.
        prefetch: the maximum number of events to read ahead.
    """

    connection: ConnectionSettings
    group: str
    partition: str
    epoch: int | None
    prefetch: int


@dataclass
class _PooledClient:
    """A pooled client, used by one thread at a time, with its receivers.

    Attributes:
        used: the time of the client's last use.
        receivers: the receivers with the time of their last use.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    client: AmqpClient | None = None
    used: float = 0.0
    receivers: dict[ReceiverSettings, tuple[AmqpReceiver, float]] = field(default_factory=dict)

    def keep(self, reading: ReceiverSettings, receiver: AmqpReceiver) -> None:
        """Return a receiver to the pool."""
        self.receivers[reading] = receiver, time.monotonic()

    def pop_receiver(self, reading: ReceiverSettings) -> AmqpReceiver | None:
        """Remove and return a pooled receiver; None if there is none."""
        receiver, _ = self.receivers.pop(reading, (None, 0))
        return receiver

    def close_idle(self, now: float) -> None:
        """Close what has been idle for too long."""
        is_idle = now - self.used > _CLIENT_SECONDS
        for reading, (receiver, read) in list(self.receivers.items()):
            if is_idle or now - read > _RECEIVER_SECONDS:
                del self.receivers[reading]
                with contextlib.suppress(Exception):
                    receiver.close()
        if is_idle and self.client is not None:
            with contextlib.suppress(Exception):
                self.client.close()
            self.client = None


class Pool:
    """The clients of a process, one per connection, and their receivers.

    Args:
        folder: the folder for finding processes of this machine with receivers.

    Attributes:
        borrowed: the number of reads by a receiver of another process.
        made: the number of reads that opened a receiver.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._process = os.getpid()
        self._folder = folder or default_folder()
        self._lock = threading.Lock()
        self._kept: dict[ConnectionSettings, _PooledClient] = {}
        self._names: dict[str, ReceiverSettings] = {}
        self._neighbours = Neighbours(self._lend, self._folder)
        self._looking: threading.Event | None = None
        self._asked = 0.0
        self.borrowed = 0
        self.made = 0

    @contextmanager
    def client(self, connection: ConnectionSettings) -> Iterator[AmqpClient]:
        """Lend a client exclusively; after an error it reconnects."""
        with self._borrowed(connection) as kept:
            assert kept.client is not None
            yield kept.client

    def read(
        self,
        reading: ReceiverSettings,
        position: int | StartPlace,
        end: int,
        seconds: float,
        *,
        shared: bool = False,
    ) -> Events:
        """Return the next events from a position on; none on timeout.

        They come from a pooled receiver of this process or another one of the machine, or from a
        new one.

        Args:
            position: the sequence number of the first event.
            end: the sequence number behind the last event.
            seconds: the timeout for the first event.
            shared: whether another process may be asked to read. As it has other work, a new
                receiver is faster for very many events.

        Raises:
            BrokenOffError: a receiver has failed; another one may be opened at its position.
            EventHubsError: it has failed permanently.
        """
        kept = self._of(reading.connection)
        if shared and isinstance(position, int) and not _is_at(kept, reading, position):
            lent = self._neighbours.read(name_of(reading), position, end, seconds)
            if lent is not None:
                self.borrowed += 1
                return lent
        with self._borrowed(reading.connection) as kept:
            receiver = self._receiver(kept, reading, position)
            found = _read(receiver, end, seconds)
            if isinstance(position, int):
                kept.keep(reading, receiver)
            else:
                receiver.close()
        return found

    def _receiver(
        self, kept: _PooledClient, reading: ReceiverSettings, position: int | StartPlace
    ) -> AmqpReceiver:
        """Return the pooled receiver if it is at the position, or open one."""
        receiver = kept.pop_receiver(reading)
        if receiver is not None and receiver.position == position:
            return receiver
        if receiver is not None:
            receiver.close()
        self.made += 1
        assert kept.client is not None
        receiver = kept.client.receiver(
            reading.group, reading.partition, position, reading.epoch, reading.prefetch
        )
        if isinstance(position, int):
            name = name_of(reading)
            self._names[name] = reading
            self._neighbours.tell(name)
        return receiver

    def _lend(self, name: str, position: int, end: int, seconds: float) -> Events | None:
        """Read for another process, if a receiver is at the position and soon free."""
        reading = self._names.get(name)
        kept = None if reading is None else self._kept.get(reading.connection)
        if reading is None or kept is None:
            return None
        if not kept.lock.acquire(timeout=_PATIENCE):
            return None
        try:
            kept.used = time.monotonic()
            receiver = kept.pop_receiver(reading)
            if receiver is None:
                return None
            if receiver.position != position:
                receiver.close()
                return None
            found = _read(receiver, end, seconds)
            kept.keep(reading, receiver)
        finally:
            kept.lock.release()
        return found

    def forget(self, reading: ReceiverSettings) -> None:
        """Close the pooled receiver of a reading."""
        kept = self._of(reading.connection)
        with kept.lock:
            receiver = kept.pop_receiver(reading)
            if receiver is not None:
                receiver.close()

    def end(self, reading: ReceiverSettings) -> None:
        """Close the receiver of a reading in whichever process of this machine has it."""
        self.forget(reading)
        with contextlib.suppress(EventHubsError):
            self._neighbours.read(name_of(reading), _NOWHERE, _NOWHERE, 0)

    @contextmanager
    def _borrowed(self, connection: ConnectionSettings) -> Iterator[_PooledClient]:
        kept = self._of(connection)
        with kept.lock:
            if kept.client is None:
                kept.client = AmqpClient(connection)
            try:
                yield kept
            finally:
                kept.used = time.monotonic()

    def _of(self, connection: ConnectionSettings) -> _PooledClient:
        with self._lock:
            if self._process != os.getpid():  # Connections opened by a parent process belong to it.
                self._kept, self._names, self._process = {}, {}, os.getpid()
                self._neighbours = Neighbours(self._lend, self._folder)
                self._looking = None
            self._asked = time.monotonic()
            if self._looking is None:
                self._looking = threading.Event()
                threading.Thread(
                    target=self._close_when_idle,
                    args=(self._looking,),
                    name="sparkbeam-idle-receivers",
                    daemon=True,
                ).start()
            return self._kept.setdefault(connection, _PooledClient())

    def _close_when_idle(self, over: threading.Event) -> None:
        """Close idle receivers and clients, until none have been left for a while."""
        while not over.wait(_LOOK_SECONDS):
            now = time.monotonic()
            self._close_idle(now)
            with self._lock:
                is_open = any(kept.client is not None for kept in self._kept.values())
                if not is_open and now - self._asked > _CLIENT_SECONDS:
                    self._looking = None
                    return

    def _close_idle(self, now: float) -> None:
        """Close clients and receivers that have been idle for too long; ``now`` is the clock."""
        with self._lock:
            found = list(self._kept.values())
        for kept in found:
            if kept.lock.acquire(blocking=False):
                try:
                    kept.close_idle(now)
                finally:
                    kept.lock.release()

    def close(self) -> None:
        """Close all unused clients and receivers."""
        self._neighbours.close()
        self._close_idle(math.inf)
        with self._lock:
            if self._looking is not None:
                self._looking.set()
                self._looking = None
            self._neighbours = Neighbours(self._lend, self._folder)


def _is_at(kept: _PooledClient, reading: ReceiverSettings, position: int) -> bool:
    receiver, _ = kept.receivers.get(reading, (None, 0))
    return receiver is not None and receiver.position == position


def _read(receiver: AmqpReceiver, end: int, seconds: float) -> Events:
    try:
        return receiver.read(end, seconds)
    except BaseException:
        receiver.close()
        raise


POOL = Pool()
"""That of this process."""

"""What a process keeps open between micro-batches: clients, and receivers of partitions."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sparkbeam.eventhubs.client import Client, Place, Receiver
from sparkbeam.eventhubs.settings import Connection

_IDLE_SECONDS = 300


def opened(connection: Connection) -> Client:
    """A new client of the kind that is wanted.

    Raises:
        ConfigurationError: what it needs is not installed, or the connection cannot be.
    """
    if connection.client == "slim":
        from sparkbeam.eventhubs.slim import SlimClient

        return SlimClient(connection)
    from sparkbeam.eventhubs.sdk import SdkClient

    return SdkClient(connection)


@dataclass(frozen=True)
class Reading:
    """What a receiver reads, and as whom.

    Attributes:
        connection: to the event hub.
        group: the consumer group.
        partition: its id.
        epoch: of the receiver; None for none.
        prefetch: of how many events it may be ahead.
    """

    connection: Connection
    group: str
    partition: str
    epoch: int | None
    prefetch: int


@dataclass
class _Kept:
    client: Client
    used: float
    receivers: dict[Reading, Receiver] = field(default_factory=dict)
    is_borrowed: bool = False


class Pool:
    """The clients of a process, one for each connection, and their receivers.

    Attributes:
        reused: how many readings have gone on with a receiver that was kept.
        made: for how many a receiver was opened.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._kept: dict[Connection, list[_Kept]] = {}
        self.reused = 0
        self.made = 0

    @contextmanager
    def client(self, connection: Connection) -> Iterator[Client]:
        """A client that nobody else uses in the meantime."""
        with self._borrowed(connection) as kept:
            yield kept.client

    @contextmanager
    def receiver(self, reading: Reading, position: int | Place) -> Iterator[Receiver]:
        """A receiver at a position: the one that was kept if it is there, else a new one."""
        with self._borrowed(reading.connection, reading) as kept:
            receiver = kept.receivers.pop(reading, None)
            if receiver is not None and receiver.position == position:
                self.reused += 1
            else:
                if receiver is not None:
                    receiver.close()
                self.made += 1
                receiver = kept.client.receiver(
                    reading.group, reading.partition, position, reading.epoch, reading.prefetch
                )
            try:
                yield receiver
            except BaseException:
                receiver.close()
                raise
            if isinstance(position, int):
                kept.receivers[reading] = receiver
            else:
                receiver.close()

    def forget(self, reading: Reading) -> None:
        """Ends the receivers of a reading that are kept."""
        with self._lock:
            found = [
                kept.receivers.pop(reading)
                for kept in self._kept.get(reading.connection, [])
                if not kept.is_borrowed and reading in kept.receivers
            ]
        for receiver in found:
            receiver.close()

    @contextmanager
    def _borrowed(self, connection: Connection, reading: Reading | None = None) -> Iterator[_Kept]:
        kept = self._take(connection, reading)
        try:
            yield kept
        finally:  # After an error a client connects anew by itself.
            with self._lock:
                kept.is_borrowed = False
                kept.used = time.monotonic()

    def _take(self, connection: Connection, reading: Reading | None) -> _Kept:
        with self._lock:
            if self._process != os.getpid():  # What a parent has opened is the parent's.
                self._kept, self._process = {}, os.getpid()
            self._close_idle()
            all_kept = self._kept.setdefault(connection, [])
            free = [kept for kept in all_kept if not kept.is_borrowed]
            free.sort(key=lambda kept: reading not in kept.receivers)
            if free:
                free[0].is_borrowed = True
                return free[0]
        kept = _Kept(opened(connection), time.monotonic(), is_borrowed=True)
        with self._lock:
            self._kept.setdefault(connection, []).append(kept)
        return kept

    def _close_idle(self) -> None:
        since = time.monotonic() - _IDLE_SECONDS
        for all_kept in self._kept.values():
            for kept in list(all_kept):
                if not kept.is_borrowed and kept.used < since:
                    all_kept.remove(kept)
                    _close(kept)

    def close(self) -> None:
        """Ends all that is not in use."""
        with self._lock:
            for all_kept in self._kept.values():
                for kept in list(all_kept):
                    if not kept.is_borrowed:
                        all_kept.remove(kept)
                        _close(kept)


def _close(kept: _Kept) -> None:
    for receiver in kept.receivers.values():
        with contextlib.suppress(Exception):
            receiver.close()
    with contextlib.suppress(Exception):
        kept.client.close()


POOL = Pool()
"""That of this process."""

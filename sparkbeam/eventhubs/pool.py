"""What a process keeps open between micro-batches: clients, and receivers of partitions."""

import contextlib
import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sparkbeam.eventhubs.client import Client, EventHubsError, Events, Place, Receiver
from sparkbeam.eventhubs.receiver_sharing import Neighbours, default_folder, name_of
from sparkbeam.eventhubs.recent_ranges import LastRanges
from sparkbeam.eventhubs.settings import Connection

_CLIENT_SECONDS = 300
_RECEIVER_SECONDS = 60
"""For as long as a receiver with an epoch is there, it keeps others out of its consumer group."""
_LOOK_SECONDS = 10.0

_PATIENCE = 0.25
_NOWHERE = -1
_NOT_TO_READ = -1.0


def opened(connection: Connection) -> Client:
    """A new client of the kind that is wanted.

    Raises:
        ConfigurationError: what it needs is not installed, or the connection cannot be.
    """
    if connection.client == "slim":
        from sparkbeam.eventhubs.slim_client import SlimClient

        return SlimClient(connection)
    from sparkbeam.eventhubs.sdk_client import SdkClient

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
    """A client, which one thread uses at a time, and its receivers.

    Attributes:
        used: when the client was used last.
        receivers: each with when it was.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    client: Client | None = None
    used: float = 0.0
    receivers: dict[Reading, tuple[Receiver, float]] = field(default_factory=dict)

    def keep(self, reading: Reading, receiver: Receiver) -> None:
        """Keeps a receiver for the next reading."""
        self.receivers[reading] = receiver, time.monotonic()

    def take(self, reading: Reading) -> Receiver | None:
        """The receiver that is kept, which then is not any more."""
        receiver, _ = self.receivers.pop(reading, (None, 0))
        return receiver

    def close_idle(self, now: float) -> None:
        """Ends what has not been used for so long that nobody needs it."""
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
    """The clients of a process, one for each connection, and their receivers.

    Args:
        folder: where it finds the processes of this machine that have receivers.

    Attributes:
        reused: how many readings have gone on with a receiver that was kept.
        borrowed: with one that another process keeps.
        made: for how many a receiver was opened.
        ranges: what was read last.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._process = os.getpid()
        self._folder = folder or default_folder()
        self._lock = threading.Lock()
        self._kept: dict[Connection, _Kept] = {}
        self._names: dict[str, Reading] = {}
        self._neighbours = Neighbours(self._lend, self._folder)
        self._looking: threading.Event | None = None
        self._asked = 0.0
        self.reused = 0
        self.borrowed = 0
        self.made = 0
        self.ranges = LastRanges()

    @contextmanager
    def client(self, connection: Connection) -> Iterator[Client]:
        """A client that nobody else uses in the meantime; after an error it connects anew."""
        with self._borrowed(connection) as kept:
            assert kept.client is not None
            yield kept.client

    def read(
        self,
        reading: Reading,
        position: int | Place,
        end: int,
        seconds: float,
        *,
        begin: int | None = None,
        shared: bool = False,
    ) -> Events:
        """The next events from a position on; none if none came in time.

        They come from memory if they were read in this range before, from the receiver that is
        there already, or from a new one; both in this process or another one of the machine.

        Args:
            reading: what is read.
            position: of the first event.
            end: the sequence number behind the last one that is wanted.
            seconds: how long to wait for the first.
            begin: where the range begins of which they are; None for the position.
            shared: another process may be asked to read. It has work of its own, so for very many
                events a receiver of our own is faster.

        Raises:
            BrokenOffError: a receiver has ended; another one may be opened where it was.
            EventHubsError: it has ended for good.
        """
        kept = self._of(reading.connection)
        if isinstance(position, int):
            begin = position if begin is None else begin
            again = self.ranges.get(reading, position, end)
            if again is not None:
                return again
            if not _is_at(kept, reading, position):
                wait = seconds if shared else _NOT_TO_READ
                found = self._neighbours.read(name_of(reading), begin, position, end, wait)
                if found is not None:
                    self.borrowed += not found.again
                    return found
        with self._borrowed(reading.connection) as kept:
            receiver = self._receiver(kept, reading, position)
            found = _read(receiver, end, seconds)
            if isinstance(position, int):
                kept.keep(reading, receiver)
                self.ranges.add(reading, position if begin is None else begin, position, found)
            else:
                receiver.close()
        return found

    def _receiver(self, kept: _Kept, reading: Reading, position: int | Place) -> Receiver:
        """Takes the one that is kept if it is at the position, or opens one."""
        receiver = kept.take(reading)
        if receiver is not None and receiver.position == position:
            self.reused += 1
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

    def _lend(
        self, name: str, begin: int, position: int, end: int, seconds: float
    ) -> Events | None:
        """Reads for another process, if a receiver is at that position and soon free."""
        reading = self._names.get(name)
        kept = None if reading is None else self._kept.get(reading.connection)
        if reading is None or kept is None:
            return None
        again = self.ranges.get(reading, position, end)
        if again is not None or seconds == _NOT_TO_READ:
            return again
        if not kept.lock.acquire(timeout=_PATIENCE):
            return None
        try:
            kept.used = time.monotonic()
            receiver = kept.take(reading)
            if receiver is None:
                return None
            if receiver.position != position:
                receiver.close()
                return None
            found = _read(receiver, end, seconds)
            kept.keep(reading, receiver)
        finally:
            kept.lock.release()
        self.ranges.add(reading, begin, position, found)
        return found

    def forget(self, reading: Reading) -> None:
        """Ends the receiver of a reading that is kept, and forgets what it has read."""
        self.ranges.forget(reading)
        kept = self._of(reading.connection)
        with kept.lock:
            receiver = kept.take(reading)
            if receiver is not None:
                receiver.close()

    def end(self, reading: Reading) -> None:
        """Ends the receiver of a reading in whatever process of this machine has it."""
        self.forget(reading)
        with contextlib.suppress(EventHubsError):
            self._neighbours.read(name_of(reading), _NOWHERE, _NOWHERE, _NOWHERE, 0)

    @contextmanager
    def _borrowed(self, connection: Connection) -> Iterator[_Kept]:
        kept = self._of(connection)
        with kept.lock:
            if kept.client is None:
                kept.client = opened(connection)
            try:
                yield kept
            finally:
                kept.used = time.monotonic()

    def _of(self, connection: Connection) -> _Kept:
        with self._lock:
            if self._process != os.getpid():  # What a parent has opened is the parent's.
                self._kept, self._names, self._process = {}, {}, os.getpid()
                self.ranges = LastRanges()
                self._neighbours = Neighbours(self._lend, self._folder)
                self._looking = None
            self._asked = time.monotonic()
            if self._looking is None:
                self._looking = threading.Event()
                threading.Thread(
                    target=self._look,
                    args=(self._looking,),
                    name="sparkbeam-idle-receivers",
                    daemon=True,
                ).start()
            return self._kept.setdefault(connection, _Kept())

    def _look(self, over: threading.Event) -> None:
        """Ends what is idle, in a thread of its own, until nothing has been there for a while."""
        while not over.wait(_LOOK_SECONDS):
            now = time.monotonic()
            self._close_idle(now)
            with self._lock:
                is_open = any(kept.client is not None for kept in self._kept.values())
                if not is_open and now - self._asked > _CLIENT_SECONDS:
                    self._looking = None
                    return

    def _close_idle(self, now: float) -> None:
        """Ends what is not in use, and has not been for long."""
        self.ranges.forget_idle(now)
        with self._lock:
            found = list(self._kept.values())
        for kept in found:
            if kept.lock.acquire(blocking=False):
                try:
                    kept.close_idle(now)
                finally:
                    kept.lock.release()

    def close(self) -> None:
        """Ends all that is not in use."""
        self._neighbours.close()
        self._close_idle(math.inf)
        with self._lock:
            if self._looking is not None:
                self._looking.set()
                self._looking = None
            self._neighbours = Neighbours(self._lend, self._folder)


def _is_at(kept: _Kept, reading: Reading, position: int) -> bool:
    receiver, _ = kept.receivers.get(reading, (None, 0))
    return receiver is not None and receiver.position == position


def _read(receiver: Receiver, end: int, seconds: float) -> Events:
    try:
        return receiver.read(end, seconds)
    except BaseException:
        receiver.close()
        raise


POOL = Pool()
"""That of this process."""

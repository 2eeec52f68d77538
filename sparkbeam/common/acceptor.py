"""Bounded inbound connections of local servers.

Each server keeps its connections in a :class:`Guests`. A connection that does not authenticate in
time is closed, and earlier if there are too many. A process that runs out of file descriptors
pauses accepting instead of polling.
"""

import errno
import resource
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

PAUSE_SECONDS = 0.25
"""Pause in accepting connections while the process has no free file descriptors."""

_STRANGERS = 64
_SHARE = 16
"""Unauthenticated connections may use one part in this many of the file descriptors."""

_FULL = frozenset([errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])

Guest = TypeVar("Guest")


class Full(Exception):
    """The process cannot open another connection at the moment."""


def accepted(server: socket.socket) -> socket.socket | None:
    """Accept the next connection, or return None if the client has gone.

    Raises:
        Full: there are no descriptors left.
    """
    try:
        return server.accept()[0]
    except OSError as error:
        if error.errno in _FULL:
            raise Full from error
        return None


class Guests(Generic[Guest]):
    """Connections of one server. Thread-safe.

    Args:
        close: closes a connection; may be called from any thread.
        seconds: how long a connection may take to authenticate.
        known: the maximum number of authenticated connections.
        strangers: the maximum number of others; None derives it from the process's limit on
            file descriptors.
        clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        close: Callable[[Guest], None],
        seconds: float,
        known: int,
        strangers: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._close = close
        self._seconds = seconds
        self._most = known
        if strangers is None:
            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            strangers = _STRANGERS if soft < 0 else max(4, min(_STRANGERS, soft // _SHARE))
        self._strangers = strangers
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[Guest, float] = {}
        self._known: set[Guest] = set()

    def enter(self, guest: Guest) -> None:
        """Add an unauthenticated connection; close the oldest if there are too many."""
        with self._lock:
            self._waiting[guest] = self._clock() + self._seconds
            excess = [*self._waiting][: max(0, len(self._waiting) - self._strangers)]
        self._end(excess)

    def know(self, guest: Guest) -> bool:
        """Mark a connection as authenticated; close it and return False if there are too many."""
        with self._lock:
            known = self._waiting.pop(guest, None) is not None
            if known and len(self._known) < self._most:
                self._known.add(guest)
                return True
            is_known = guest in self._known
        if known:
            self._close(guest)
        return is_known

    def leave(self, guest: Guest) -> None:
        """Remove a closed connection."""
        with self._lock:
            self._waiting.pop(guest, None)
            self._known.discard(guest)

    def forget(self, gone: Callable[[Guest], bool]) -> None:
        """Remove the closed connections that a predicate selects."""
        with self._lock:
            self._known = {guest for guest in self._known if not gone(guest)}
            self._waiting = {g: until for g, until in self._waiting.items() if not gone(g)}

    def sweep(self) -> float | None:
        """Close connections past their deadline; return the seconds until the next deadline."""
        now = self._clock()
        with self._lock:
            late = [guest for guest, until in self._waiting.items() if until <= now]
            left = [until for until in self._waiting.values() if until > now]
        self._end(late)
        return min(left) - now if left else None

    def make_room(self) -> None:
        """Close all unauthenticated connections to free their descriptors."""
        with self._lock:
            strangers = [*self._waiting]
        self._end(strangers)

    def _end(self, guests: list[Guest]) -> None:
        for guest in guests:
            with self._lock:
                gone = self._waiting.pop(guest, None) is None
            if not gone:
                with suppress(OSError):
                    self._close(guest)


def is_at_home(host: str, own: str = "") -> bool:
    """Return whether an HTTP ``Host`` is an IP address or a name of this machine only.

    DNS rebinding lets a foreign page's name resolve to this machine; its requests carry that name
    as the host.

    Args:
        own: another name that is allowed.
    """
    name = host.strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.rpartition(":")[0] or name
    if name == "localhost" or (own and name == own.lower()):
        return True
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError, ValueError):
            socket.inet_pton(family, name)
            return True
    return False

"""Connections that anybody on the machine may open, in numbers that leave the process alone.

Each place that listens keeps its connections as :class:`Guests`: one that says nothing, or not what
it has to, goes after some seconds, or at once where there are too many. Where the process has no
descriptors left, it stops listening for a moment instead of asking again and again.
"""

import errno
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

PAUSE_SECONDS = 0.25
"""For so long nobody is let in where the process has no descriptors left."""

_STRANGERS = 64
_SHARE = 16
"""Strangers take at most this part of the descriptors that the process may have."""

_FULL = frozenset([errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])

Guest = TypeVar("Guest")


class Full(Exception):
    """The process cannot have another connection at the moment."""


def accepted(server: socket.socket) -> socket.socket | None:
    """The next connection; None where whoever wanted it has gone.

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
    """The connections of one place that listens; may be used from any thread.

    Args:
        close: ends a connection that has to go; it may be called from any thread.
        seconds: how long one may take to show that it may be here.
        known: so many there may be that have.
        strangers: so many there may be that have not; None for what the limit of the process on
            descriptors allows.
        clock: gives seconds that only grow.
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
        self._strangers = _allowed() if strangers is None else strangers
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[Guest, float] = {}
        self._known: set[Guest] = set()

    def enter(self, guest: Guest) -> None:
        """Takes in a stranger; the one that has been here for longest goes where it is too many."""
        with self._lock:
            self._waiting[guest] = self._clock() + self._seconds
            excess = [*self._waiting][: max(0, len(self._waiting) - self._strangers)]
        self._end(excess)

    def know(self, guest: Guest) -> bool:
        """Notes that one may be here; False, and it goes, where there are too many of those."""
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
        """Notes that one has gone."""
        with self._lock:
            self._waiting.pop(guest, None)
            self._known.discard(guest)

    def forget(self, gone: Callable[[Guest], bool]) -> None:
        """Notes that those have gone of which that is true."""
        with self._lock:
            self._known = {guest for guest in self._known if not gone(guest)}
            self._waiting = {g: until for g, until in self._waiting.items() if not gone(g)}

    def sweep(self) -> float | None:
        """Ends strangers whose time is over; in so many seconds that of the next one is."""
        now = self._clock()
        with self._lock:
            late = [guest for guest, until in self._waiting.items() if until <= now]
            left = [until for until in self._waiting.values() if until > now]
        self._end(late)
        return min(left) - now if left else None

    def make_room(self) -> None:
        """Ends all strangers: somebody needs their descriptors more."""
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


def _allowed() -> int:
    try:
        import resource
    except ImportError:  # There is none on Windows.
        return _STRANGERS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _STRANGERS if soft < 0 else max(4, min(_STRANGERS, soft // _SHARE))


def is_at_home(host: str, own: str = "") -> bool:
    """Return whether a ``Host`` of HTTP is an address, or a name of this machine alone.

    A page of elsewhere may have its name lead to this machine (DNS rebinding); what it asks for has
    that name as the host.

    Args:
        host: as the request has it, perhaps with a port.
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

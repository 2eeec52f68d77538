"""Receiver of worker signals, on the driver."""

import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from sparkbeam.common.background import background_thread
from sparkbeam.common.datagrams import LARGEST
from sparkbeam.spark import session as sessions
from sparkbeam.spark.capabilities import setting
from sparkbeam.upstream.spark import is_connect
from sparkbeam.wire.reports import Reporter, Signal

_LOOPBACK = "127.0.0.1"
_RECEIVE_BUFFER = 1 << 20
_IDLE_SECONDS = 1.0
_CLOSE_SECONDS = 0.2


class Listener:
    """A socket, with a thread that receives datagrams.

    Malformed datagrams and those without the token are dropped.

    Args:
        note: called with each signal in the listener's thread; its exceptions are dropped with the
            signal.
        host: the address at which workers reach the driver.

    Raises:
        OSError: the address cannot be bound.
    """

    def __init__(
        self, note: Callable[[Signal], None], bind: str = _LOOPBACK, host: str = _LOOPBACK
    ) -> None:
        self._note = note
        self._token = secrets.token_hex(16)
        self._closed = threading.Event()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            self._socket.settimeout(_IDLE_SECONDS)
            self._socket.bind((bind, 0))
        except OSError:
            self._socket.close()
            raise
        self.reporter = Reporter(host, self._socket.getsockname()[1], self._token)
        self._thread = background_thread(self._receive, "sparkbeam-progress")
        self._thread.start()

    def close(self) -> None:
        """Process the datagrams that have arrived, then stop; takes at most 0.2 s."""
        self._closed.set()
        # The thread sleeps until something arrives, or notices later by itself.
        with contextlib.suppress(OSError):
            self._socket.sendto(b"", self._socket.getsockname())
        self._thread.join(_CLOSE_SECONDS)

    def _receive(self) -> None:
        with self._socket:
            while not self._closed.is_set():
                with contextlib.suppress(TimeoutError):
                    self._take()
            self._socket.setblocking(False)
            deadline = time.monotonic() + _CLOSE_SECONDS
            with contextlib.suppress(BlockingIOError):
                while time.monotonic() < deadline:
                    self._take()

    def _take(self) -> None:
        datagram = self._socket.recv(LARGEST)
        # Anyone may send anything.
        with contextlib.suppress(Exception):
            self._note(Signal.parse(datagram, self._token))


def listen(session: Any, note: Callable[[Signal], None]) -> Listener | None:
    """Start a listener that the workers of ``session`` can reach; return None if impossible."""
    try:
        reachable = reachable_at(session)
        if reachable is None:
            return None
        host, bind = reachable
        return Listener(note, bind, host)
    except Exception:  # The pipeline does not depend on the listener.
        return None


def reachable_at(session: Any) -> tuple[str, str] | None:
    """Return the address at which workers reach the driver, and the address to listen on.

    Returns:
        Two addresses, from ``spark.driver.host`` and ``spark.driver.bindAddress`` if workers may
        run on other machines; None if workers cannot reach the driver.

    Raises:
        Exception: of any type, if the addresses cannot be determined.
    """
    if may_reach_loopback(session):
        return _LOOPBACK, _LOOPBACK
    if is_connect(session):
        return None
    name = setting(session, "spark.driver.host")
    if name is None:
        return None
    # Numeric, so that workers need not resolve the name for every signal.
    host = socket.gethostbyname(name)
    return host, setting(session, "spark.driver.bindAddress") or host


def may_reach_loopback(session: Any) -> bool:
    """Return whether the workers appear to run on this machine."""
    if is_connect(session):
        return session.client.host in ("localhost", _LOOPBACK)
    return sessions.is_local(session)

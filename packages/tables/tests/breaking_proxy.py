"""A TCP proxy on loopback before a server, which breaks connections in the middle."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_RESET = struct.pack("ii", 1, 0)
"""Option of a socket that is closed by a reset."""


class BreakingProxy:
    """A proxy.

    Attributes:
        port: of the proxy.
        broken: the number of connections that it has broken.
    """

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.broken = 0
        self._left, self._after = 0, 0
        self._lock = threading.Lock()

    def break_next(self, connections: int, *, after: int) -> None:
        """Break connections.

        Args:
            connections: their number.
            after: the number of bytes that one carries before, in either direction.
        """
        with self._lock:
            self._left, self._after = connections, after

    def run(self) -> None:
        """Accept connections until the proxy is closed."""
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server))
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def close(self) -> None:
        """Accept no more connections."""
        self._listener.close()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        carried = 0
        with suppress(OSError):
            while data := source.recv(1 << 14):
                carried += len(data)
                if self._breaks(carried):
                    for one in (source, target):
                        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    break
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _breaks(self, carried: int) -> bool:
        with self._lock:
            if not self._left or carried < self._after:
                return False
            self._left -= 1
            self.broken += 1
            return True


@contextmanager
def breaking_proxy(port: int) -> Iterator[BreakingProxy]:
    """Run a proxy before a server."""
    proxy = BreakingProxy(port)
    threading.Thread(target=proxy.run, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.close()

"""The sockets of this process and of those that it has started, and ports that are free."""

import socket
import threading
from contextlib import suppress
from typing import Self

import psutil

LOOPBACK = ("127.0.0.", "::1", "::ffff:127.0.0.")
_BREAK_SECONDS = 0.2


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody listens on; all are taken before one is given back."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [server.getsockname()[1] for server in taken]
    for server in taken:
        server.close()
    return ports


def free_port() -> int:
    return free_ports(1)[0]


def answers(port: int) -> bool:
    """Return whether somebody takes connections at a port of loopback."""
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex(("127.0.0.1", port)) == 0


class Listening:
    """Looks for sockets as long as the context lasts.

    Attributes:
        found: the name of a process, and the address that it can be reached at.
    """

    def __init__(self) -> None:
        self.found: set[tuple[str, str]] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def elsewhere(self) -> list[tuple[str, str]]:
        """The sockets that other machines can reach; fails if the JVM has none at all."""
        assert "java" in {name for name, _ in self.found}
        return sorted(one for one in self.found if not one[1].startswith(LOOPBACK))

    def _look(self) -> None:
        own = psutil.Process()
        ended = False
        while not ended:
            ended = self._ended.wait(_BREAK_SECONDS)  # What is short is looked at in its end.
            for process in (own, *own.children(recursive=True)):
                with suppress(psutil.Error):
                    self.found |= {
                        (process.name(), connection.laddr.ip)
                        for connection in process.net_connections("inet")
                        if connection.laddr
                        and connection.status in (psutil.CONN_LISTEN, psutil.CONN_NONE)
                    }

"""Servers on the loopback interface that take metrics, well and badly."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class HttpReceiver:
    """An HTTP server.

    Attributes:
        url: where it is.
        requests: of each its path, its headers and its body.
        status: what it answers with.
        location: where it redirects to.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, Any, bytes]] = []
        self.status = 200
        self.location: str | None = None
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((self.path, self.headers, body))
                self.send_response(receiver.status)
                if receiver.location is not None:
                    self.send_header("Location", receiver.location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_PUT = do_POST  # noqa: N815

            def log_message(self, *_: Any) -> None:
                """Nothing on the tests' standard error."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/metrics"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class GraphiteReceiver:
    """A server of Graphite's plaintext protocol, which refuses what carbon would.

    Attributes:
        port: where it is.
        connections: of each the values that came, by their path, with their times.
    """

    def __init__(self) -> None:
        self.connections: list[dict[str, tuple[float, int]]] = []
        self.errors: list[str] = []
        receiver = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                values = {}
                for line in self.rfile.read().decode().splitlines():
                    # As carbon does it.
                    parts = line.strip().split()
                    if len(parts) != 3:
                        receiver.errors.append(line)
                        continue
                    path, value, stamp = parts
                    values[path] = (float(value), int(stamp))
                receiver.connections.append(values)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def silent() -> Iterator[int]:
    """A port where somebody takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]

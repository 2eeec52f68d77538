"""Path of printed and logged output of steps out of a worker.

A driver on the same machine gets each line at once, over a connection on its loopback interface.
From elsewhere the first lines of each step travel with the reports of the tasks, and all of them
are where Spark keeps the output of its executors.

The connection also tells the driver the current step of the worker, so that it can name the step in
which a worker has died.
"""

import contextlib
import json
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable

from sparkbeam.common.secret_patterns import hidden
from sparkbeam.wire.output_lines import AT, IDLE, MOST_LINES, OutputLine, Relay, Written

_CONNECT_SECONDS = 1.0
_SEND_SECONDS = 30.0


class Outlet:
    """The way out of this process; one task at a time uses it.

    Attributes:
        hide: returns a text without the secrets of the task.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._relay: Relay | None = None
        self._connection: socket.socket | None = None
        self._at = ""
        self._lines: list[OutputLine] = []
        self._more: Counter[str] = Counter()
        self._seen: Counter[str] = Counter()
        self.hide: Callable[[str], str] = hidden

    def open(self, relay: Relay | None, hide: Callable[[str], str] = hidden) -> None:
        """Begin a task; output that nobody took of an earlier task is not reported as its own."""
        with self._lock:
            self._forget()
            self.hide = hide
            if relay != self._relay or self._connection is None:
                self._disconnect()
                self._relay = relay
                self._connection = None if relay is None else _connected(relay)

    @property
    def is_live(self) -> bool:
        """True if a driver gets the output at once."""
        return self._connection is not None

    def close(self) -> None:
        """End the task."""
        with self._lock:
            self._at = ""
            self._send(IDLE)

    def at(self, steps: str) -> None:
        """Note the current steps of the task, by their labels; from any thread."""
        with self._lock:
            if steps != self._at:
                self._at = steps
                self._send(AT, steps)

    def write(self, line: OutputLine) -> bool:
        """Write a line; return whether the driver has been told at once."""
        with self._lock:
            if self._send(*line):
                return True
            self._seen[line.step] += 1
            if self._seen[line.step] <= MOST_LINES:
                self._lines.append(line.cut(self.hide))
            else:
                self._more[line.step] += 1
            return False

    def take_written(self) -> Written:
        """Return the output that travels with the task's report, once."""
        with self._lock:
            written = Written.from_lines(self._lines, self._more)
            self._forget()
        return written

    def _forget(self) -> None:
        self._lines, self._more, self._seen = [], Counter(), Counter()

    def _send(self, *message: str) -> bool:
        if self._connection is None:
            return False
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self._disconnect()
            return False
        return True

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _connected(relay: Relay) -> socket.socket | None:
    """Return a connection to the driver; None if it is on another machine, or has gone."""
    with contextlib.suppress(OSError):
        connection = socket.create_connection(("127.0.0.1", relay.port), _CONNECT_SECONDS)
        connection.settimeout(_SEND_SECONDS)
        connection.sendall(json.dumps([relay.token, os.getpid()]).encode() + b"\n")
        return connection
    return None


OUTPUT_SOCKET = Outlet()
"""That of this process."""

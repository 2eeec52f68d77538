"""The way of what steps print and log out of a worker.

A driver on the same machine gets each line at once, over a connection on its loopback interface.
From elsewhere the first lines of each step travel with the reports of the tasks, and all of them
are where Spark keeps the output of its executors.

The connection tells the driver as well what the worker is at, so that it can name the step in which
a worker has died.
"""

import contextlib
import json
import os
import socket
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

STDOUT, STDERR = "stdout", "stderr"
"""The streams that a line may be of."""

AT, IDLE = "at", "idle"
"""What else a worker tells a driver on its machine: at which steps it is, or that it is at none."""

MOST_LINES = 100
"""So many lines of a step travel with reports; the others are only counted."""

_LONGEST_LINE = 2000
_CONNECT_SECONDS = 1.0
_SEND_SECONDS = 30.0


class Line(NamedTuple):
    """A line that a step has written.

    Attributes:
        stream: which of the standard streams it belongs to.
        step: the label of the step.
        text: the line, without its end.
    """

    stream: str
    step: str
    text: str


@dataclass(frozen=True)
class Written:
    """What steps have written that nobody has been told at once.

    Attributes:
        lines: the first ones of each step.
        more: how many others there are, by the label of their step.
    """

    lines: tuple[Line, ...] = ()
    more: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: Iterable[Line], more: Mapping[str, int] | None = None) -> "Written":
        """Of all the lines, those that are worth their way."""
        seen, rest = Counter[str](), Counter(more)
        first = []
        for line in lines:
            seen[line.step] += 1
            if seen[line.step] <= MOST_LINES:
                first.append(line._replace(text=line.text[:_LONGEST_LINE]))
            else:
                rest[line.step] += 1
        return cls(tuple(first), dict(rest))

    def plus(self, other: "Written") -> "Written":
        """This and what was written later."""
        if not other:
            return self
        more = Counter(self.more) + Counter(other.more)
        return Written.of((*self.lines, *other.lines), more)

    def counted(self) -> "Written":
        """The same without the lines: two attempts of a task may print different things."""
        return Written((), dict(Counter(line.step for line in self.lines) + Counter(self.more)))

    def __bool__(self) -> bool:
        return bool(self.lines or self.more)


@dataclass(frozen=True)
class Relay:
    """Where a driver on this machine takes lines.

    Attributes:
        port: of the loopback interface.
        token: proves that a connection belongs to the run.
    """

    port: int
    token: str


class Outlet:
    """The way out of this process; one task at a time uses it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._relay: Relay | None = None
        self._connection: socket.socket | None = None
        self._at = ""
        self._lines: list[Line] = []
        self._more: Counter[str] = Counter()
        self._seen: Counter[str] = Counter()

    def open(self, relay: Relay | None) -> None:
        """Called when a task begins; what nobody took of an earlier one is not told as its own."""
        with self._lock:
            self._forget()
            if relay != self._relay or self._connection is None:
                self._disconnect()
                self._relay = relay
                self._connection = None if relay is None else _connected(relay)

    @property
    def is_live(self) -> bool:
        """Whether there is a driver that is told at once."""
        return self._connection is not None

    def close(self) -> None:
        """Called when the task has ended."""
        with self._lock:
            self._at = ""
            self._send(IDLE)

    def at(self, steps: str) -> None:
        """Notes what the task is at, by the labels of the steps; from any thread."""
        with self._lock:
            if steps != self._at:
                self._at = steps
                self._send(AT, steps)

    def write(self, line: Line) -> bool:
        """Gives a line out; returns whether the driver has been told at once."""
        with self._lock:
            if self._send(*line):
                return True
            self._seen[line.step] += 1
            if self._seen[line.step] <= MOST_LINES:
                self._lines.append(line)
            else:
                self._more[line.step] += 1
            return False

    def taken(self) -> Written:
        """What is to travel with the task's report, once."""
        with self._lock:
            written = Written.of(self._lines, self._more)
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
    """A connection to the driver; None where it is on another machine, or has gone."""
    with contextlib.suppress(OSError):
        connection = socket.create_connection(("127.0.0.1", relay.port), _CONNECT_SECONDS)
        connection.settimeout(_SEND_SECONDS)
        connection.sendall(json.dumps([relay.token, os.getpid()]).encode() + b"\n")
        return connection
    return None


OUTLET = Outlet()
"""That of this process."""

"""Output and log lines of steps, forwarded to the driver's standard streams."""

import contextlib
import hmac
import json
import secrets
import selectors
import socket
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

from sparkbeam.common.acceptor import PAUSE_SECONDS, Full, Guests, accepted
from sparkbeam.common.background import background_thread
from sparkbeam.common.display_text import line as one_line
from sparkbeam.common.display_text import printable
from sparkbeam.observe.collection.notes import Notes
from sparkbeam.wire.output_lines import AT, IDLE, STDERR, STDOUT, Relay, Written
from sparkbeam.wire.reports import TaskReport

_LOOPBACK = "127.0.0.1"
_CLOSE_SECONDS = 10.0
_RECEIVE = 1 << 16
_LONGEST_GREETING = 1000
_GREETING_SECONDS = 5.0
_MOST_WORKERS = 2000


def tell(reports: Iterable[TaskReport], notes: Notes | None = None) -> None:
    """Write the output of steps contained in task reports."""
    written = Written()
    for report in reports:
        written = written.plus(report.written)
    for stream, label, text in written.lines:
        write(stream, text)
        if notes is not None and stream == STDERR:
            notes.add(label, text)
    for step, count in written.more.items():
        more = "more " if any(line.step == step for line in written.lines) else ""
        lines = "line" if count == 1 else "lines"
        write(
            STDERR,
            f"sparkbeam: step '{one_line(step)}' wrote {count:,} {more}{lines}: see the "
            "logs of Spark's executors (stdout and stderr on the Executors page of its UI).",
        )


def write(stream: str, text: str) -> None:
    """Write a line to the current standard output or standard error."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # Closed, or there is none.
        out = sys.stdout if stream == STDOUT else sys.stderr
        out.write(f"{printable(text)}\n")
        out.flush()


class OutputListener:
    """Receiver of lines from workers on this machine, with a separate thread.

    Raises:
        OSError: the loopback interface cannot be bound.
    """

    def __init__(self, notes: Notes | None = None) -> None:
        self._notes = notes
        self._token = secrets.token_hex(16)
        self._died: list[str] = []
        self._workers: list[_Worker] = []
        self._closed = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._guests = Guests[socket.socket](self._forget, _GREETING_SECONDS, _MOST_WORKERS)
        self._pause: float | None = None
        self._server = socket.create_server((_LOOPBACK, 0), backlog=128)
        self._server.setblocking(False)
        self._selector.register(self._server, selectors.EVENT_READ)
        self._waker, self._awake = socket.socketpair()
        self._selector.register(self._awake, selectors.EVENT_READ)
        self.relay = Relay(self._server.getsockname()[1], self._token)
        self._thread = background_thread(self._run, "sparkbeam-output")
        self._thread.start()

    def died(self) -> list[str]:
        """Return the steps of workers that have died within a task, in order of death."""
        return list(dict.fromkeys(self._died))

    def at(self) -> list[str]:
        """Return the steps that workers execute."""
        return list(dict.fromkeys(worker.at for worker in tuple(self._workers) if worker.at))

    def close(self) -> None:
        """Write the lines that have arrived, then stop."""
        self._closed.set()
        with contextlib.suppress(OSError):
            self._waker.send(b"x")
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        while True:
            ready = self._selector.select(0 if self._closed.is_set() else self._patience())
            if self._closed.is_set() and not ready:
                break
            for key, _ in ready:
                self._serve(key.fileobj, key.data)
        for key in list(self._selector.get_map().values()):
            self._forget(key.fileobj)
        self._server.close()
        self._selector.close()
        self._waker.close()

    def _patience(self) -> float | None:
        """Close overdue connections; return the seconds until the next one is due."""
        first = self._guests.sweep()
        if self._pause is None:
            return first
        left = self._pause - time.monotonic()
        if left <= 0:
            self._pause = None
            self._selector.register(self._server, selectors.EVENT_READ)
            return first
        return left if first is None else min(left, first)

    def _accept(self) -> None:
        try:
            connection = accepted(self._server)
        except Full:
            self._guests.make_room()
            self._selector.unregister(self._server)
            self._pause = time.monotonic() + PAUSE_SECONDS
            return
        if connection is not None:
            connection.setblocking(False)
            worker = _Worker(self._token, self._notes)
            self._workers.append(worker)
            self._selector.register(connection, selectors.EVENT_READ, worker)
            self._guests.enter(connection)

    def _serve(self, readable: Any, worker: "_Worker | None") -> None:
        if readable is self._server:
            self._accept()
            return
        if readable is self._awake:
            self._awake.recv(16)
            return
        assert worker is not None
        if readable.fileno() < 0:  # Closed to make room, in this iteration.
            return
        try:
            received = readable.recv(_RECEIVE)
            worker.receive(received)
            if worker.is_trusted and not self._guests.know(readable):
                return
        except BlockingIOError:
            return
        except Exception:  # Anyone may connect and send anything.
            received = b""
        if not received:
            if worker.at and not self._closed.is_set():
                self._died.append(worker.at)
            self._forget(readable)

    def _forget(self, connection: Any) -> None:
        self._guests.leave(connection)
        with contextlib.suppress(KeyError, ValueError):  # It is closed already, or still waiting.
            self._workers.remove(self._selector.unregister(connection).data)
        connection.close()


class _Worker:
    """State of the worker at the other end of a connection."""

    def __init__(self, token: str, notes: Notes | None) -> None:
        self.at = ""
        self._token = token
        self._notes = notes
        self.is_trusted = False
        self._received = bytearray()

    def receive(self, received: bytes) -> None:
        """Process received bytes.

        Raises:
            Exception: of any type, if they do not come from a worker of the run.
        """
        self._received += received
        *messages, rest = self._received.split(b"\n")
        self._received = bytearray(rest)
        for message in messages:
            content = json.loads(message)
            if self.is_trusted:
                self._hear(*content)
            elif hmac.compare_digest(str(content[0]).encode(), self._token.encode()):
                self.is_trusted = True
            else:
                raise ValueError("wrong token")
        if not self.is_trusted and len(self._received) > _LONGEST_GREETING:
            raise ValueError("no greeting")

    def _hear(self, kind: str, *content: str) -> None:
        if kind == AT:
            (self.at,) = content
        elif kind == IDLE:
            self.at = ""
        else:
            label, text = content
            write(kind, text)
            if self._notes is not None and kind == STDERR:
                self._notes.add(label, text)

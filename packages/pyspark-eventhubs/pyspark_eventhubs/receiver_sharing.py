"""Sharing of receivers between processes of a machine.

Spark gives a task to the Python worker that has been idle longest, which is seldom the one that has
read the partition before. A worker without a receiver therefore asks the one that has it for
events, over a socket that only processes of the same user can access.
"""

import hashlib
import itertools
import json
import os
import secrets
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from pyspark_eventhubs.checks import parsed_json
from pyspark_eventhubs.events import BrokenOffError, EventHubsError, Events, StolenError

_GRACE = 5.0
_PAUSE = 0.25
_BACKLOG = 64
_EVENTS, _ABSENT = "events", "absent"
_ERRORS = {kind.__name__: kind for kind in (EventHubsError, BrokenOffError, StolenError)}

Lend = Callable[[str, int, int, float], Events | None]
"""Reads with a receiver of this process.

It is given the receiver's name, the position, the end and how many seconds to wait.
"""


def name_of(reading: Any) -> str:
    """Return the name of a reading among processes; it contains no secrets."""
    return hashlib.sha256(repr(astuple(reading)).encode()).hexdigest()[:40]


def default_folder() -> Path:
    """Return the folder in which the processes of this user find each other."""
    return Path(tempfile.gettempdir()) / f"sparkbeam-hubs-{_user()}"


class Neighbours:
    """Other processes with receivers on this machine, as seen by one of them.

    The folder contains a socket per process, and per receiver a symbolic link to the socket of the
    process that opened it last. On systems without such sockets nothing is shared.

    Args:
        lend: reads for other processes; called in threads.
    """

    def __init__(self, lend: Lend, folder: Path) -> None:
        self._lend = lend
        self._folder = folder
        self._lock = threading.Lock()
        self._listener: Listener | None = None
        self._closed = False
        self._socket = f"{os.getpid()}-{secrets.token_hex(4)}"

    def read(self, name: str, position: int, end: int, seconds: float) -> Events | None:
        """Return the next events from the receiver of another process; None if none has it there.

        The arguments are those of :data:`Lend`.

        Raises:
            BrokenOffError: the receiver has failed; another one may be opened.
            EventHubsError: it has failed permanently.
        """
        link = self._folder / name
        try:
            target = os.readlink(link)
            if target == self._socket or not _is_own(self._folder):
                return None
            with Client(str(self._folder / target), "AF_UNIX") as asked:
                asked.send_bytes(json.dumps([name, position, end, seconds]).encode())
                if not asked.poll(seconds + _GRACE):
                    return None
                kind, found = parsed_json(asked.recv_bytes().decode())
                bodies = asked.recv_bytes() if kind == _EVENTS else b""
        except FileNotFoundError:
            return None
        except (OSError, EOFError, ValueError, TypeError):  # It has ended, or is no reader.
            with suppress(OSError):
                link.unlink()
            return None
        if kind in _ERRORS:
            raise _ERRORS[kind](found)
        return _unpacked(found, bodies) if kind == _EVENTS else None

    def tell(self, name: str) -> None:
        """Announce a receiver of this process to the others."""
        with self._lock, suppress(OSError, AttributeError):
            if self._listener is None and not self._closed:
                self._listener = self._listening()
            if self._listener is not None:
                made = self._folder / f".{name}-{self._socket}"
                made.symlink_to(self._socket)
                made.replace(self._folder / name)

    def _listening(self) -> Listener | None:
        """Listen, unless other users could connect."""
        if not hasattr(socket, "AF_UNIX"):
            return None
        self._folder.mkdir(mode=0o700, exist_ok=True)
        if not _is_own(self._folder):
            return None
        _sweep(self._folder)
        listener = Listener(str(self._folder / self._socket), "AF_UNIX", _BACKLOG)
        threading.Thread(
            target=self._accept, args=(listener,), name="sparkbeam-receivers", daemon=True
        ).start()
        return listener

    def _accept(self, listener: Listener) -> None:
        while not self._closed:
            try:
                asker = listener.accept()
                threading.Thread(target=self._answer, args=(asker,), daemon=True).start()
            except (OSError, EOFError, RuntimeError):  # No descriptors, no threads are left.
                time.sleep(_PAUSE)

    def _answer(self, asker: "Connection[Any, Any]") -> None:
        with asker, suppress(OSError, EOFError, ValueError, TypeError):
            if not asker.poll(_GRACE):
                return
            name, position, end, seconds = parsed_json(asker.recv_bytes().decode())
            try:
                found = self._lend(name, position, end, seconds)
            except EventHubsError as error:
                kind = type(error).__name__
                answer = [kind if kind in _ERRORS else BrokenOffError.__name__, str(error)]
                asker.send_bytes(json.dumps(answer).encode())
                return
            if found is None:
                asker.send_bytes(json.dumps([_ABSENT, None]).encode())
                return
            *columns, bodies = found.columns()
            sizes = [len(body) for body in bodies]
            asker.send_bytes(json.dumps([_EVENTS, [*columns, sizes]]).encode())
            asker.send_bytes(b"".join(bodies))

    def close(self) -> None:
        """Stop sharing receivers."""
        with self._lock:
            listener, self._listener, self._closed = self._listener, None, True
        if listener is not None:
            with suppress(OSError):  # The thread waits for someone to ask.
                Client(str(self._folder / self._socket), "AF_UNIX").close()
            listener.close()


def _unpacked(columns: list[list[Any]], bodies: bytes) -> Events:
    """Return events from their wire format, in which the bodies are concatenated."""
    *others, properties, system, sizes = columns
    ends = itertools.accumulate(sizes)
    rest: list[list[Any]] = [
        [list(map(tuple, pairs)) for pairs in properties],
        [list(map(tuple, pairs)) for pairs in system],
        [bodies[end - size : end] for end, size in zip(ends, sizes, strict=True)],
    ]
    return Events(*[*others, *rest])


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _is_own(folder: Path) -> bool:
    """Return whether only this user can have created files in a folder."""
    found = folder.lstat()
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid == _user()
        and not stat.S_IMODE(found.st_mode) & 0o77
    )


def _sweep(folder: Path) -> None:
    """Remove files left by processes that have ended."""
    for path in folder.iterdir():
        with suppress(OSError, ValueError):
            if path.is_symlink():
                if not path.exists():
                    path.unlink()
            elif not _is_alive(int(path.name.partition("-")[0])):
                path.unlink()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True

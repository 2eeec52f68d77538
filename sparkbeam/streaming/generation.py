"""Fencing of drivers over a checkpoint: each start has a number, and only the newest may write.

A driver that was suspended, or replaced too early, finds at its next commit that there is a newer
one, and ends. Each start creates a file with its number under the checkpoint, which must not exist
yet. Storage without atomic creation may give two starts the same number: then the one whose file is
there is the newer one.
"""

import json
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from sparkbeam.common.untrusted_json import loaded
from sparkbeam.errors import CheckpointTaken
from sparkbeam.streaming.checkpoint_files import Files, files

_FOLDER = "generations"
_KEPT = 10


@dataclass(frozen=True)
class Generation:
    """One start of a driver over a checkpoint; sent to everything that writes for the driver.

    Attributes:
        number: one more than that of the previous start.
        token: unique id of the start.
    """

    checkpoint: str
    number: int
    token: str

    @classmethod
    def begin(cls, kept: Files, checkpoint: str) -> Self:
        """Begin the next generation; all older ones are rejected from now on."""
        token = uuid.uuid4().hex
        while True:
            number = newest(kept) + 1
            # A crash of the machine ends all its drivers.
            made = kept.create(_name(number), _content(token), outlives=False)
            # Concurrent starts may have used the number and already removed it as an old one.
            if made and number > newest(kept) - _KEPT:
                break
        for old in _numbers(kept):
            if old <= number - _KEPT:
                kept.remove(_name(old))
        return cls(checkpoint, number, token)

    def check(self, kept: Files | None = None) -> None:
        """Raise an error if there is a newer generation.

        Args:
            kept: the files under the checkpoint; None for those visible to this process.

        Raises:
            CheckpointTaken: there is one.
        """
        kept = kept or files(self.checkpoint)
        last = newest(kept)
        if last < self.number:
            raise CheckpointTaken(
                f"The checkpoint {self.checkpoint} was removed or replaced while this program "
                "was running, so it ends. Stop a pipeline before changing its checkpoint."
            )
        found = _read(kept, last)
        # On storage without links a file that is just being written may have no token yet.
        if last > self.number or found.get("token", self.token) != self.token:
            newer = f"generation {last}{', of another start,' * (last == self.number)}"
            where = f" on {found['host']}, process {found['process']}" if "host" in found else ""
            raise CheckpointTaken(
                f"Another driver has taken over the checkpoint {self.checkpoint}: this one is "
                f"generation {self.number}, and {newer} began {found.get('began', 'since')}{where}."
                " This one ends without writing anything more; the newer one continues. Run only "
                "one program over a checkpoint: end the old one before starting its replacement, "
                "or give another --checkpoint_location."
            )

    def check_if_seen(self) -> None:
        """Check as far as a task can: executors may not see the checkpoint as the driver does.

        Raises:
            CheckpointTaken: there is a newer generation.
        """
        try:
            last = newest(files(self.checkpoint))
        except Exception:
            return
        if last > self.number:
            self.check()


@contextmanager
def unless_taken(check: Callable[[], None]) -> Iterator[None]:
    """Replace an error by CheckpointTaken if a newer driver has taken over.

    Args:
        check: :meth:`Generation.check`.

    Raises:
        CheckpointTaken: there is a newer driver.
    """
    try:
        yield
    except Exception:
        with only_if_taken():
            check()
        raise


@contextmanager
def only_if_taken() -> Iterator[None]:
    """Suppress errors of a check, which may have the same cause as an earlier error."""
    try:
        yield
    except CheckpointTaken:
        raise
    except Exception:
        return


class OwnFiles:
    """Files under a checkpoint that a driver can write while no newer one exists."""

    def __init__(self, kept: Files, generation: Generation) -> None:
        self._kept = kept
        self._generation = generation

    @property
    def number(self) -> int:
        """Number of the generation."""
        return self._generation.number

    @property
    def checkpoint(self) -> str:
        """Location of the checkpoint, as Spark has it."""
        return self._generation.checkpoint

    def check(self) -> None:
        """Raise :class:`.CheckpointTaken` if there is a newer driver."""
        self._generation.check(self._kept)

    def path(self, name: str) -> str:
        return self._kept.path(name)

    def read(self, name: str) -> bytes | None:
        return self._kept.read(name)

    def read_log(self, name: str) -> bytes | None:
        return self._kept.read_log(name)

    def names(self, folder: str) -> list[str]:
        return self._kept.names(folder)

    def write(self, name: str, content: bytes, ready: Callable[[], None] | None = None) -> None:
        self.check()
        self._kept.write(name, content, ready or self._generation.check)

    def create(self, name: str, content: bytes, *, outlives: bool = True) -> bool:
        self.check()
        return self._kept.create(name, content, outlives=outlives)

    def remove(self, name: str) -> None:
        self.check()
        self._kept.remove(name)

    def untrusted_reason(self) -> str | None:
        return self._kept.untrusted_reason()

    def remove_all(self) -> None:
        self.check()
        self._kept.remove_all()


def newest(kept: Files) -> int:
    """Return the number of the last start over a checkpoint; 0 if unknown."""
    return max(_numbers(kept), default=0)


def _numbers(kept: Files) -> list[int]:
    return [int(name) for name in kept.names(_FOLDER) if name.isdecimal()]


def _name(number: int) -> str:
    return f"{_FOLDER}/{number}"


def _content(token: str) -> bytes:
    began = datetime.fromtimestamp(time.time(), UTC).isoformat(" ", "seconds")
    told = {"token": token, "began": began, "host": socket.gethostname(), "process": os.getpid()}
    return json.dumps(told).encode()


def _read(kept: Files, number: int) -> dict[str, Any]:
    """Return the description of a start; empty if unreadable."""
    with suppress(ValueError):
        told: dict[str, Any] = loaded(kept.read(_name(number)) or b"")
        return told
    return {}

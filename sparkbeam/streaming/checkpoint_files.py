"""Small files beside Spark's own under the checkpoint of a query."""

import json
import os
import re
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from sparkbeam.common import local_files
from sparkbeam.common.untrusted_json import MOST_BYTES
from sparkbeam.errors import CheckpointFailed

_FOLDER = "sparkbeam"
_ID = "id"
_EPOCH = "epoch"
_PLACES = "places"

OTHER_CHECKPOINT = (
    "Put the one of a backup in its place, or start with another --checkpoint_location."
)
"""The remedy where nothing else helps."""


class Files(Protocol):
    """Whole files by name; a write is seen as a whole or not at all."""

    def path(self, name: str) -> str:
        """Where a file is, for people."""

    def read(self, name: str) -> bytes | None:
        """The content of a file, None if there is none."""

    def read_log(self, name: str) -> bytes | None:
        """The content of a file that Spark keeps under the checkpoint, None if there is none."""

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder; none if there is no such folder."""

    def write(
        self, name: str, content: bytes, ready: Callable[[], None] = local_files.nothing
    ) -> None:
        """Writes a file, in the place of one of the same name.

        Args:
            name: of the file.
            content: all of it.
            ready: called just before the file is seen; what it raises prevents that.
        """

    def create(self, name: str, content: bytes, *, outlives: bool = True) -> bool:
        """Writes a file unless there is one; whether it was written.

        On a file system that is atomic, whoever else tries it at the same time; storage that
        Beam writes to cannot promise it.

        Args:
            name: of the file.
            content: all of it.
            outlives: the content has to survive a crash of the machine.
        """

    def remove(self, name: str) -> None:
        """Removes a file, if there is one."""

    def mistrusted(self) -> str | None:
        """Why other users may have put something there, in words; None if they may not have."""

    def remove_all(self) -> None:
        """Removes the whole checkpoint, with what Spark has written."""


def files(checkpoint: str) -> Files:
    """The files under a checkpoint location: a path, or a URL that Beam's filesystems know."""
    if checkpoint.startswith("dbfs:"):
        return LocalFiles("/dbfs" + checkpoint.removeprefix("dbfs:"))
    if "://" in checkpoint and not checkpoint.startswith("file://"):
        return RemoteFiles(checkpoint)
    return LocalFiles(re.sub("^file:/*", "/", checkpoint))


def files_of(session: Any, checkpoint: str) -> Files:
    """The same, as the driver of a session reaches them."""
    from sparkbeam.spark import (
        session as sessions,  # It takes Beam, and tasks of sources do without.
    )

    return ServerFiles(session, checkpoint) if sessions.is_remote(session) else files(checkpoint)


def checkpoint_id(files: Files) -> str:
    """What tells a checkpoint from all others, for its life."""
    text = _kept(files, _ID, uuid.uuid4().hex[:12].encode()).decode(errors="replace")
    if not re.fullmatch("[0-9a-f]{12}", text):
        # It becomes a part of the names of files.
        raise damaged(files.path(_ID))
    return text


def next_epoch(files: Files) -> int:
    """A number for a run over a checkpoint that is higher than those of all runs before.

    It is the time in milliseconds, so that runs over different checkpoints are in order too; where
    the clock has gone back, or is that of another machine, one more than the last.
    """
    found = files.read(_EPOCH)
    last = b"0" if found is None else found
    if not re.fullmatch(rb"[0-9]{1,18}", last):
        raise damaged(files.path(_EPOCH), "Remove it when no older run is left, and start again.")
    epoch = max(time.time_ns() // 10**6, int(last) + 1)
    files.write(_EPOCH, b"%d" % epoch)
    return epoch


def kept_places(files: Files, places: int) -> int:
    """How many tasks ran at once when a query was first started over a checkpoint.

    In which order a source hands out its partitions may depend on it: a micro-batch that runs again
    has the same tasks as before, however large the cluster is by now.
    """
    found = _kept(files, _PLACES, b"%d" % places)
    if not re.fullmatch(rb"[1-9][0-9]{0,8}", found):
        raise damaged(files.path(_PLACES))
    return int(found)


def _kept(files: Files, name: str, content: bytes) -> bytes:
    """The content that the first of all starts has given a file."""
    found = files.read(name)
    if found is None and not files.create(name, content):
        found = files.read(name)
    return content if found is None else found


def not_written(path: str, error: OSError) -> CheckpointFailed:
    """What to tell where a file of a checkpoint cannot be written."""
    return CheckpointFailed(
        f"The checkpoint file {path} cannot be written: {error.strerror or error}. "
        "Make room or give the permission, and start the program again over the same "
        "--checkpoint_location: what is committed is not lost."
    )


def not_read(path: str, problem: object) -> CheckpointFailed:
    """What to tell where a file of a checkpoint cannot be read at all."""
    return CheckpointFailed(
        f"The checkpoint file {path} cannot be read: {problem}. Give the permission, or put the "
        "one of a backup in its place."
    )


def damaged(path: str, remedy: str = OTHER_CHECKPOINT, how: str = "damaged") -> CheckpointFailed:
    """What to tell where a file of a checkpoint does not hold what was written."""
    return CheckpointFailed(f"The checkpoint file {path} is {how}. {remedy}")


def absolute(checkpoint: str) -> str:
    """A checkpoint location that means the same in each process and folder."""
    is_url = re.match("[A-Za-z][A-Za-z0-9+.-]*:", checkpoint)
    return checkpoint if is_url else str(Path(checkpoint).absolute())


class LocalFiles:
    """Files on a file system that all processes of the driver see."""

    def __init__(self, checkpoint: str) -> None:
        self._checkpoint = Path(checkpoint)
        self._folder = self._checkpoint / _FOLDER

    def path(self, name: str) -> str:
        return str(self._folder / name)

    def read(self, name: str) -> bytes | None:
        return _content(self._folder / name)

    def read_log(self, name: str) -> bytes | None:
        return _content(self._checkpoint / name)

    def names(self, folder: str) -> list[str]:
        try:
            found = os.listdir(self._folder / folder)
        except FileNotFoundError:
            return []
        return [name for name in found if not name.startswith(".")]

    def write(
        self, name: str, content: bytes, ready: Callable[[], None] = local_files.nothing
    ) -> None:
        path = self._folder / name
        try:
            local_files.write(path, content, ready)
        except OSError as error:
            raise not_written(str(path), error) from error

    def create(self, name: str, content: bytes, *, outlives: bool = True) -> bool:
        path = self._folder / name
        try:
            return local_files.create(path, content, outlives=outlives)
        except OSError as error:
            raise not_written(str(path), error) from error

    def remove(self, name: str) -> None:
        try:
            (self._folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise not_written(str(self._folder / name), error) from error

    def mistrusted(self) -> str | None:
        for folder in (self._checkpoint, self._folder):
            reason = local_files.mistrusted(folder)
            if reason is not None:
                return f"of the folder {folder}: {reason}"
        return None

    def remove_all(self) -> None:
        shutil.rmtree(self._checkpoint, ignore_errors=True)

    def make_private(self) -> bytes | None:
        """Makes the checkpoint's folder for this user alone, if there is none.

        Returns:
            An empty content, or None if there is one that this user may not write to.
        """
        self._checkpoint.mkdir(mode=0o700, exist_ok=True)
        return b"" if os.access(self._checkpoint, os.R_OK | os.W_OK | os.X_OK) else None


def _content(path: Path) -> bytes | None:
    try:
        # Nobody waits for the other end of a pipe.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise not_read(str(path), "it is no file")
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise not_read(str(path), error.strerror or error) from error
    if len(content) > MOST_BYTES:
        raise not_read(str(path), "it is too large")
    return content


class RemoteFiles:
    """Files on one of the file systems that Beam knows; those replace files as a whole."""

    def __init__(self, checkpoint: str) -> None:
        from apache_beam.io.filesystems import FileSystems

        self._systems = FileSystems
        self._checkpoint = checkpoint.rstrip("/")
        self._folder = f"{self._checkpoint}/{_FOLDER}"

    def path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def read(self, name: str) -> bytes | None:
        return self._content(self.path(name))

    def read_log(self, name: str) -> bytes | None:
        return self._content(f"{self._checkpoint}/{name}")

    def names(self, folder: str) -> list[str]:
        (found,) = self._systems.match([f"{self.path(folder)}/*"])
        return [file.path.rpartition("/")[2] for file in found.metadata_list]

    def _content(self, path: str) -> bytes | None:
        from apache_beam.io.filesystem import BeamIOError

        try:
            if not self._systems.exists(path):
                return None
            with self._systems.open(path) as file:
                content = bytes(file.read(MOST_BYTES + 1))
        except (OSError, BeamIOError) as error:
            raise not_read(path, error) from error
        if len(content) > MOST_BYTES:
            raise not_read(path, "it is too large")
        return content

    def write(
        self, name: str, content: bytes, ready: Callable[[], None] = local_files.nothing
    ) -> None:
        path = f"{self._folder}/{name}"
        try:
            ready()
            with self._systems.create(path) as file:
                file.write(content)
        except OSError as error:
            raise not_written(path, error) from error

    def create(self, name: str, content: bytes, *, outlives: bool = True) -> bool:
        if self._systems.exists(self.path(name)):
            return False
        self.write(name, content)
        return True

    def mistrusted(self) -> str | None:
        return None  # Who may write there such storage decides itself.

    def remove(self, name: str) -> None:
        if self._systems.exists(f"{self._folder}/{name}"):
            self._systems.delete([f"{self._folder}/{name}"])

    def remove_all(self) -> None:
        self._systems.delete([f"{self._checkpoint}/"])


class ServerFiles:
    """The files as the Spark server sees them: each access is a small task there.

    Args:
        session: a Spark Connect session.
        checkpoint: the checkpoint location.
    """

    def __init__(self, session: Any, checkpoint: str) -> None:
        self._session = session
        self._checkpoint = checkpoint

    def path(self, name: str) -> str:
        return f"{self._checkpoint}/{_FOLDER}/{name}"

    def read(self, name: str) -> bytes | None:
        return self._on_server("read", name)

    def read_log(self, name: str) -> bytes | None:
        return self._on_server("read_log", name)

    def write(
        self, name: str, content: bytes, ready: Callable[[], None] = local_files.nothing
    ) -> None:
        self._on_server("write", name, content, ready)

    def names(self, folder: str) -> list[str]:
        return list(json.loads(self._on_server("names", folder) or b"[]"))

    def create(self, name: str, content: bytes, *, outlives: bool = True) -> bool:
        return bool(json.loads(self._on_server("create", name, content) or b"false"))

    def mistrusted(self) -> str | None:
        reason: str | None = json.loads(self._on_server("mistrusted") or b"null")
        return reason

    def remove(self, name: str) -> None:
        self._on_server("remove", name)

    def remove_all(self) -> None:
        self._on_server("remove_all")

    def make_private(self) -> bytes | None:
        """See :meth:`LocalFiles.make_private`."""
        return self._on_server("make_private")

    def _on_server(self, action: str, *arguments: Any) -> bytes | None:
        task = _Access(self._checkpoint, action, arguments)
        ((content,),) = self._session.range(0, 1, 1, 1).mapInArrow(task, "content binary").collect()
        return None if content is None else bytes(content)


class _Access:
    """The task of :class:`ServerFiles`, for ``mapInArrow``."""

    def __init__(self, checkpoint: str, action: str, arguments: tuple[Any, ...]) -> None:
        self._checkpoint = checkpoint
        self._action = action
        self._arguments = arguments

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            found = getattr(files(self._checkpoint), self._action)(*self._arguments)
            content = found if isinstance(found, bytes | None) else json.dumps(found).encode()
            yield pa.record_batch([pa.array([content], pa.binary())], names=["content"])

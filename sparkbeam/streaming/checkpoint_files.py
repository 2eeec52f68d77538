"""Small files next to Spark's own under the checkpoint of a query."""

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
from sparkbeam.spark.capabilities import is_remote

_FOLDER = "sparkbeam"
_ID = "id"
_EPOCH = "epoch"
_PLACES = "places"

OTHER_CHECKPOINT = "Restore it from a backup, or start with another --checkpoint_location."
"""The last remedy."""


class Files(Protocol):
    """Whole files by name; writes are atomic."""

    def path(self, name: str) -> str:
        """Return the path of a file, for messages."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None."""

    def read_log(self, name: str) -> bytes | None:
        """Return the content of one of Spark's files under the checkpoint, or None."""

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder; none if it does not exist."""

    def write(
        self, name: str, content: bytes, ready: Callable[[], None] = local_files.nothing
    ) -> None:
        """Write a file, replacing an existing one.

        Args:
            content: all of it.
            ready: called just before the file becomes visible; its exception prevents that.
        """

    def create(self, name: str, content: bytes, *, outlives: bool = True) -> bool:
        """Write a file unless it exists; return whether it was written.

        Atomic on a file system; Beam's remote storage cannot promise it.

        Args:
            content: all of it.
            outlives: the content must survive a crash of the machine.
        """

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""

    def untrusted_reason(self) -> str | None:
        """Return why other users may have written there, in words; None if they cannot have."""

    def remove_all(self) -> None:
        """Remove the whole checkpoint, including Spark's files."""


def files(checkpoint: str) -> Files:
    """Return the files under a checkpoint location: a path, or a URL of Beam's filesystems."""
    if checkpoint.startswith("dbfs:"):
        return LocalFiles("/dbfs" + checkpoint.removeprefix("dbfs:"))
    if "://" in checkpoint and not checkpoint.startswith("file://"):
        return RemoteFiles(checkpoint)
    return LocalFiles(re.sub("^file:/*", "/", checkpoint))


def files_of(session: Any, checkpoint: str) -> Files:
    """Return the files as seen from the driver of a session."""
    return ServerFiles(session, checkpoint) if is_remote(session) else files(checkpoint)


def checkpoint_id(files: Files) -> str:
    """Return the permanent id of a checkpoint."""
    text = _read_or_create(files, _ID, uuid.uuid4().hex[:12].encode()).decode(errors="replace")
    if not re.fullmatch("[0-9a-f]{12}", text):
        # It becomes part of file names.
        raise damaged(files.path(_ID))
    return text


def next_epoch(files: Files) -> int:
    """Return a number for a run that is higher than those of all earlier runs.

    It is the time in milliseconds, so that runs over different checkpoints are ordered too; if the
    clock went backwards or belongs to another machine, it is the last number plus one.
    """
    found = files.read(_EPOCH)
    last = b"0" if found is None else found
    if not re.fullmatch(rb"[0-9]{1,18}", last):
        raise damaged(files.path(_EPOCH), "Remove it when no older run remains, and start again.")
    epoch = max(time.time_ns() // 10**6, int(last) + 1)
    files.write(_EPOCH, b"%d" % epoch)
    return epoch


def stored_places(files: Files, places: int) -> int:
    """Return the number of concurrent tasks at the first start over a checkpoint.

    The order of a source's partitions may depend on it: a repeated micro-batch has the same tasks
    as before, whatever the current size of the cluster.
    """
    found = _read_or_create(files, _PLACES, b"%d" % places)
    if not re.fullmatch(rb"[1-9][0-9]{0,8}", found):
        raise damaged(files.path(_PLACES))
    return int(found)


def _read_or_create(files: Files, name: str, content: bytes) -> bytes:
    """Return the content that the first start has written."""
    found = files.read(name)
    if found is None and not files.create(name, content):
        found = files.read(name)
    return content if found is None else found


def not_written(path: str, error: OSError) -> CheckpointFailed:
    """Return the error for a checkpoint file that cannot be written."""
    return CheckpointFailed(
        f"The checkpoint file {path} cannot be written: {error.strerror or error}. "
        "Free space or grant the permission, and start the program again over the same "
        "--checkpoint_location: committed data is not lost."
    )


def not_read(path: str, problem: object) -> CheckpointFailed:
    """Return the error for a checkpoint file that cannot be read."""
    return CheckpointFailed(
        f"The checkpoint file {path} cannot be read: {problem}. Grant the permission, or "
        "restore the file from a backup."
    )


def damaged(path: str, remedy: str = OTHER_CHECKPOINT, how: str = "damaged") -> CheckpointFailed:
    """Return the error for a damaged checkpoint file."""
    return CheckpointFailed(f"The checkpoint file {path} is {how}. {remedy}")


def absolute(checkpoint: str) -> str:
    """Return a checkpoint location that is independent of the working directory."""
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

    def untrusted_reason(self) -> str | None:
        for folder in (self._checkpoint, self._folder):
            reason = local_files.untrusted_reason(folder)
            if reason is not None:
                return f"the folder {folder} is not private: {reason}"
        return None

    def remove_all(self) -> None:
        shutil.rmtree(self._checkpoint, ignore_errors=True)

    def make_private(self) -> bytes | None:
        """Create the checkpoint's folder for this user only, if it does not exist.

        Returns:
            An empty content, or None if the folder exists and this user cannot write to it.
        """
        self._checkpoint.mkdir(mode=0o700, exist_ok=True)
        return b"" if os.access(self._checkpoint, os.R_OK | os.W_OK | os.X_OK) else None


def _content(path: Path) -> bytes | None:
    try:
        # Do not wait for the other end of a pipe.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise not_read(str(path), "it is not a regular file")
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise not_read(str(path), error.strerror or error) from error
    if len(content) > MOST_BYTES:
        raise not_read(str(path), "it is too large")
    return content


class RemoteFiles:
    """Files on one of Beam's file systems, which replace files atomically."""

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

    def untrusted_reason(self) -> str | None:
        return None  # The storage controls who can write.

    def remove(self, name: str) -> None:
        if self._systems.exists(f"{self._folder}/{name}"):
            self._systems.delete([f"{self._folder}/{name}"])

    def remove_all(self) -> None:
        self._systems.delete([f"{self._checkpoint}/"])


class ServerFiles:
    """Files as seen from the Spark server: each access is a small task there."""

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

    def untrusted_reason(self) -> str | None:
        reason: str | None = json.loads(self._on_server("untrusted_reason") or b"null")
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
    """Task of :class:`ServerFiles`, for ``mapInArrow``."""

    def __init__(self, checkpoint: str, action: str, arguments: tuple[Any, ...]) -> None:
        self._checkpoint = checkpoint
        self._action = action
        self._arguments = arguments

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            found = getattr(files(self._checkpoint), self._action)(*self._arguments)
            content = found if isinstance(found, bytes | None) else json.dumps(found).encode()
            yield pa.record_batch([pa.array([content], pa.binary())], names=["content"])

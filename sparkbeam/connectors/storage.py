"""File access by Spark's paths, from Python on the driver."""

import logging
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from sparkbeam.common import local_files
from sparkbeam.spark import session as sessions
from sparkbeam.spark.capabilities import is_remote

_LOG = logging.getLogger(__name__)


class FileStatus(NamedTuple):
    """File status.

    Attributes:
        size: in bytes.
        modified: the time of the last change, in milliseconds since 1970.
    """

    size: int
    modified: int


class Storage(Protocol):
    """Whole files by path; writes and moves are atomic.

    Object stores move by copying, so a file may exist at both paths for a while.
    """

    def read(self, path: str) -> bytes | None:
        """Return the content of a file, or None."""

    def write(self, path: str, content: bytes) -> None:
        """Write a file, replacing an existing one."""

    def create(self, path: str, content: bytes) -> bool:
        """Write a file unless it exists; return whether it was written.

        Atomic on a file system; Beam's remote storage cannot promise it.
        """

    def names(self, folder: str) -> list[str]:
        """Return the sorted relative paths of all files below a folder."""

    def status(self, path: str) -> "FileStatus | None":
        """Return the status of a file, or None."""

    def move(self, moves: Mapping[str, str]) -> None:
        """Move files by source and target; missing sources have already been moved."""

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with its content, if it exists."""

    def untrusted_reason(self, folder: str) -> str | None:
        """Return why other users may have written to a folder, or None."""

    def escaping(self, folder: str, names: Iterable[str]) -> str | None:
        """Return the first of some relative paths that leaves the folder by a symbolic link."""

    def hidden(self, folder: str) -> list[str]:
        """Return hidden folders on the same storage for metadata of a folder.

        The first is the one to use. It is next to the folder, as some readers look into hidden
        folders below; it is below only if nothing can be created next to the folder.
        """


def storage(path: str) -> Storage:
    """Return the storage of a path.

    Raises:
        ValueError: neither Python nor Beam's filesystems support the path.
    """
    if _is_local(path):
        return LocalStorage()
    FileSystems.get_filesystem(_beam(path))
    return BeamStorage()


def remove_at(session: Any, folder: str) -> None:
    """Remove a folder as seen by the driver, or the server, of a session; leftovers are logged."""
    try:
        if is_remote(session):
            task = partial(_remove, folder)
            session.range(0, 1, 1, 1).mapInArrow(task, "nothing int").collect()
        else:
            storage(folder).remove(folder)
    except Exception as error:
        _LOG.warning("The folder %s is left over (%s). Remove it.", folder, type(error).__name__)


def _remove(folder: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Remove a folder in a task."""
    for _ in batches:
        storage(folder).remove(folder)
        yield pa.record_batch([pa.array([0], pa.int32())], names=["nothing"])


FILE_FORMATS = frozenset(["parquet", "orc", "avro", "json", "csv", "text", "xml"])
"""Spark's data sources whose option ``path`` is a file or a folder."""


def from_here(path: str, format: str | None, session: Any) -> str:
    """Resolve a local path against Python's working directory.

    Spark would use the directory in which its JVM was started.
    """
    if (format or "").lower() in FILE_FORMATS and path and sessions.is_local(session):
        return absolute(path)
    return path


def absolute(path: str) -> str:
    """Return a path that is independent of the working directory, for Spark and Python."""
    is_url = re.match("[A-Za-z][A-Za-z0-9+.-]*:", path)
    return path.rstrip("/") if is_url else str(Path(path).absolute())


def local_path(path: str) -> Path | None:
    """Return the path on a file system visible to this process; None for other storage."""
    return _local(path) if _is_local(path) else None


def _is_local(path: str) -> bool:
    return "://" not in path or path.startswith("file://")


class LocalStorage:
    """A file system visible to all processes of the driver."""

    def read(self, path: str) -> bytes | None:
        try:
            return _local(path).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, path: str, content: bytes) -> None:
        local_files.write(_local(path), content)

    def create(self, path: str, content: bytes) -> bool:
        return local_files.create(_local(path), content)

    def status(self, path: str) -> FileStatus | None:
        try:
            found = _local(path).stat()
        except FileNotFoundError:
            return None
        return FileStatus(found.st_size, found.st_mtime_ns // 1_000_000)

    def names(self, folder: str) -> list[str]:
        root = _local(folder)
        return sorted(
            Path(parent, name).relative_to(root).as_posix()
            for parent, _, names in os.walk(root)
            for name in names
        )

    def move(self, moves: Mapping[str, str]) -> None:
        for source, target in moves.items():
            _local(target).parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                local_files.move(_local(source), _local(target))

    def remove(self, path: str) -> None:
        found = _local(path)
        if found.is_dir() and not found.is_symlink():
            shutil.rmtree(found, ignore_errors=True)
        else:
            with suppress(OSError):
                found.unlink()

    def untrusted_reason(self, folder: str) -> str | None:
        return local_files.untrusted_reason(_local(folder))

    def escaping(self, folder: str, names: Iterable[str]) -> str | None:
        root = _local(folder)
        real = root.resolve()
        parents: dict[Path, bool] = {}
        for name in names:
            path = root / name
            if path.parent not in parents:
                parents[path.parent] = path.parent.resolve().is_relative_to(real)
            if path.is_symlink() or not parents[path.parent]:
                return name
        return None

    def hidden(self, folder: str) -> list[str]:
        path = _local(folder)
        places = [_beside(folder), _below(folder)]
        may_be_beside = not path.parent.exists() or os.access(path.parent, os.W_OK)
        if may_be_beside and path.name and not path.is_mount():
            return places
        return places[::-1]


def _local(path: str) -> Path:
    if path.startswith("dbfs:"):
        return Path("/dbfs" + path.removeprefix("dbfs:"))
    return Path(re.sub("^file:/*", "/", path))


class BeamStorage:
    """One of Beam's file systems, which replace files atomically."""

    def read(self, path: str) -> bytes | None:
        path = _beam(path)
        if not FileSystems.exists(path):
            return None
        with FileSystems.open(path, "application/octet-stream") as file:
            return bytes(file.read())

    def write(self, path: str, content: bytes) -> None:
        self._make_folders([_beam(path)])
        with FileSystems.create(_beam(path), "application/octet-stream") as file:
            file.write(content)

    def create(self, path: str, content: bytes) -> bool:
        if FileSystems.exists(_beam(path)):
            return False
        self.write(path, content)
        return True

    def status(self, path: str) -> FileStatus | None:
        (found,) = FileSystems.match([_beam(path)])
        for file in found.metadata_list:
            return FileStatus(file.size_in_bytes, int(1000 * (file.last_updated_in_seconds or 0)))
        return None

    def names(self, folder: str) -> list[str]:
        root = f"{_beam(folder)}/"
        (found,) = FileSystems.match([f"{root}**"])
        return sorted(file.path.removeprefix(root) for file in found.metadata_list)

    def move(self, moves: Mapping[str, str]) -> None:
        left = {_beam(source): _beam(target) for source, target in moves.items()}
        while left := {source: left[source] for source in left if FileSystems.exists(source)}:
            self._make_folders(left.values())
            try:
                FileSystems.rename(list(left), list(left.values()))
            except BeamIOError:
                # Another driver may be performing the same moves.
                if all(map(FileSystems.exists, left)):
                    raise

    def remove(self, path: str) -> None:
        root = _beam(path)
        # Leftovers are hidden and harmless.
        with suppress(BeamIOError, OSError):
            if FileSystems.exists(root):
                FileSystems.delete([root])
            else:
                FileSystems.delete([f"{root}/{name}" for name in self.names(path)])

    def untrusted_reason(self, folder: str) -> str | None:
        return None  # The storage controls who can write.

    def escaping(self, folder: str, names: Iterable[str]) -> str | None:
        return None  # Object stores have no links.

    def hidden(self, folder: str) -> list[str]:
        is_bucket = folder.rpartition("/")[0].endswith("/")
        return [_below(folder)] if is_bucket else [_beside(folder), _below(folder)]

    def _make_folders(self, paths: Iterable[str]) -> None:
        """Create the parent folders of files, if the file system has folders."""
        for folder in sorted({path.rpartition("/")[0] for path in paths}):
            system = FileSystems.get_filesystem(folder)
            if system.has_dirs() and not system.exists(folder):
                system.mkdirs(folder)


def _beside(folder: str) -> str:
    parent, slash, name = folder.rpartition("/")
    return f"{parent}{slash}.{name}.sparkbeam"


def _below(folder: str) -> str:
    return f"{folder}/.sparkbeam"


_OTHER_SCHEMES = (
    (re.compile(r"^s3[an]://"), "s3://"),
    (re.compile(r"^(?:abfss?|wasbs?)://([^@/]+)@([^./]+)\.[^/]+/"), r"azfs://\2/\1/"),
)


def _beam(path: str) -> str:
    """Convert a path to Beam's schemes; Spark uses others for some storage."""
    for pattern, replacement in _OTHER_SCHEMES:
        path = pattern.sub(replacement, path)
    return path

"""Small files beside Spark's own under the checkpoint of a query."""

import os
from pathlib import Path
from typing import Protocol

_FOLDER = "sparkbeam"


class Files(Protocol):
    """Whole files by name; a write is seen as a whole or not at all."""

    def read(self, name: str) -> bytes | None:
        """The content of a file, None if there is none."""

    def write(self, name: str, content: bytes) -> None:
        """Writes a file, in the place of one of the same name."""

    def remove(self, name: str) -> None:
        """Removes a file, if there is one."""


def files(checkpoint: str) -> Files:
    """The files under a checkpoint location: a path, or a URL that Beam's filesystems know."""
    if checkpoint.startswith("dbfs:"):
        return LocalFiles("/dbfs" + checkpoint.removeprefix("dbfs:"))
    if "://" in checkpoint and not checkpoint.startswith("file://"):
        return RemoteFiles(checkpoint)
    return LocalFiles("/" + checkpoint.removeprefix("file:").lstrip("/"))


class LocalFiles:
    """Files on a file system that all processes of the driver see."""

    def __init__(self, checkpoint: str) -> None:
        self._folder = Path(checkpoint) / _FOLDER

    def read(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + ".tmp")
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    def remove(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)


class RemoteFiles:
    """Files on one of the file systems that Beam knows; those replace files as a whole."""

    def __init__(self, checkpoint: str) -> None:
        from apache_beam.io.filesystems import FileSystems

        self._systems = FileSystems
        self._folder = f"{checkpoint.rstrip('/')}/{_FOLDER}"

    def read(self, name: str) -> bytes | None:
        if not self._systems.exists(f"{self._folder}/{name}"):
            return None
        with self._systems.open(f"{self._folder}/{name}") as file:
            return bytes(file.read())

    def write(self, name: str, content: bytes) -> None:
        with self._systems.create(f"{self._folder}/{name}") as file:
            file.write(content)

    def remove(self, name: str) -> None:
        if self._systems.exists(f"{self._folder}/{name}"):
            self._systems.delete([f"{self._folder}/{name}"])

"""Spark's log of the files in a folder; its readers see only the files in the log.

It has the format of Spark's ``FileStreamSinkLog`` since Spark 2.1. Each write adds a file to
``_spark_metadata``, numbered from 0 without gaps: a line ``v1``, then a line of JSON for each data
file. Every tenth, ``<number>.compact``, includes all earlier entries, so that a reader needs at
most ten files. Older ones are removed once no reader can use them any more.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sparkbeam.common.local_files import nothing
from sparkbeam.common.untrusted_json import loaded
from sparkbeam.connectors.storage import Storage, absolute, local_path, storage

LOG = "_spark_metadata"

_VERSION = "v1"
_INTERVAL = 10
"""Default interval of Spark's readers; compacted files define another one."""

_KEPT_SECONDS = 600
"""Spark's retention of compacted files, for readers that have just listed them."""

_ENTRY = re.compile(r"([0-9]{1,18})(\.compact)?")
_ESCAPED = re.compile(r"[\x00-\x20\"#%<>?\[\\\]^`{|}\x7f]")
"""Characters that Java escapes in a URI."""


class Manifest:
    """Log of a folder.

    Args:
        folder: its path or URL.
    """

    def __init__(self, kept: Storage, folder: str) -> None:
        self._kept = kept
        self._folder = folder
        self._log = f"{folder}/{LOG}"
        self._base = _url(folder)
        self._is_known = False

    @property
    def is_there(self) -> bool:
        """True if it has any entries."""
        return bool(self._numbers())

    def files(self) -> list[str]:
        """Return the paths of all its files.

        Raises:
            ValueError: it is damaged or has another format.
        """
        return [self._path_of(entry["path"]) for entry in self._entries(self._numbers())]

    def add(self, added: Iterable[str], check: Callable[[], None] = nothing) -> None:
        """Add files atomically, unless they are in the log.

        Args:
            added: their paths, relative to the folder.
            check: raises an error if this writer must stop.

        Raises:
            ValueError: the log is damaged or has another format.
        """
        new = [self._entry(name) for name in added]
        while True:
            names = self._numbers()
            # After the first check, the files can only be there if the number was taken.
            if not self._is_known and self._has(names, new):
                break
            number = max(names, default=-1) + 1
            is_compact = (number + 1) % _INTERVAL == 0
            entries = [*self._entries(names), *new] if is_compact else new
            lines = [_VERSION, *(json.dumps(entry, separators=(",", ":")) for entry in entries)]
            name = f"{number}.compact" if is_compact else str(number)
            check()  # A newer writer that comes first from here on takes the number.
            self._is_known = self._kept.create(f"{self._log}/{name}", "\n".join(lines).encode())
            # A suspended writer may have created a number that others had compacted without it.
            if self._is_known and max(self._numbers(), default=number) < number + _INTERVAL:
                if is_compact:
                    self._clean(number)
                break
            self._is_known = False
        self._is_known = True

    def _has(self, names: Mapping[int, str], new: list[dict[str, Any]]) -> bool:
        there = {entry["path"] for entry in self._entries(names)}
        return bool(names) and all(entry["path"] in there for entry in new)

    def _numbers(self) -> dict[int, str]:
        """Return the file names of the log by number."""
        found = map(_ENTRY.fullmatch, self._kept.names(self._log))
        return {int(entry[1]): entry[0] for entry in found if entry is not None}

    def _entries(self, names: Mapping[int, str]) -> list[dict[str, Any]]:
        """Return the entries of all data files."""
        if not names:
            return []
        last = max(names)
        first = max(0, (last + 1) // _INTERVAL * _INTERVAL - 1)
        return [
            entry
            for number in range(first, last + 1)
            for entry in self._read(names.get(number), is_compact=(number + 1) % _INTERVAL == 0)
        ]

    def _read(self, name: str | None, *, is_compact: bool) -> Iterator[dict[str, Any]]:
        if name is None or name.endswith(".compact") is not is_compact:
            raise ValueError(
                f"{self._log} lacks a file, or not every tenth file is compacted: restore "
                "the removed files, or write to another folder."
            )
        lines = (self._kept.read(f"{self._log}/{name}") or b"").decode(errors="replace")
        version, *entries = lines.split("\n")
        try:
            if version != _VERSION:
                raise ValueError
            for line in entries:
                entry = loaded(line)
                yield {**entry, "path": str(entry["path"])}
        except (ValueError, TypeError, KeyError):
            raise ValueError(
                f"{self._log}/{name} is damaged. It lists the files of the folder for readers: "
                "restore it, or write to another folder."
            ) from None

    def _clean(self, compacted: int) -> None:
        """Remove files that are included in the last compacted file but one, after a while."""
        old = [name for at, name in self._numbers().items() if at < compacted - _INTERVAL]
        before = 1000 * (time.time() - _KEPT_SECONDS)
        for name in old:
            status = self._kept.status(f"{self._log}/{name}")
            if status is not None and status.modified < before:
                self._kept.remove(f"{self._log}/{name}")

    def _entry(self, name: str) -> dict[str, Any]:
        """Return the log entry of a file."""
        status = self._kept.status(f"{self._folder}/{name}")
        if status is None:
            raise FileNotFoundError(f"{self._folder}/{name} has been removed.")
        return {
            "path": f"{self._base}/{_escaped(name)}",
            "size": status.size,
            "isDir": False,
            "modificationTime": status.modified,
            "blockReplication": 1,
            "blockSize": 32 * 1024 * 1024,
            "action": "add",
        }

    def _path_of(self, url: str) -> str:
        below = url.removeprefix(f"{self._base}/")
        if below != url:
            return f"{self._folder}/{unquote(below)}"
        return unquote(urlsplit(url).path) if url.startswith("file:") else unquote(url)


def has_manifest(path: str) -> bool:
    """Return whether a folder has a log, as far as this process can see."""
    folder = absolute(path)
    return local_path(folder) is not None and Manifest(storage(folder), folder).is_there


def _url(folder: str) -> str:
    """Return the URL of a folder as in Spark's log."""
    path = local_path(folder)
    return folder if path is None else f"file://{_escaped(Path(path).absolute().as_posix())}"


def _escaped(path: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", path)

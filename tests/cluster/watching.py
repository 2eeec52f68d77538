"""Reads a folder of files whenever somebody has written to it, as its readers may do."""

import os
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pyarrow.dataset as ds

from sparkbeam.io import committed_files

_BREAK_SECONDS = 0.03


class Watching:
    """A reader in a thread of its own, for as long as the context lasts.

    Args:
        folder: with Parquet files of a streaming :class:`WriteToSpark`, which it may not be yet.

    Attributes:
        polls: how often the folder has been read, which it is when something in it changes.
        problems: what a reader should not have seen, in words.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: Counter[Any] = Counter()
        self._batches: dict[str, frozenset[str]] = {}
        self._seen: dict[str, tuple[int, int, int]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.polls = 0
        self.problems: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.is_set() and not self.problems:
            found = self._listing()
            if found != self._seen:
                self._seen = found
                self.poll()
            time.sleep(_BREAK_SECONDS)

    def _listing(self) -> dict[str, tuple[int, int, int]]:
        """All files of the folder, and which they are: where none changes, no read does."""
        found = {}
        for folder, _, names in os.walk(self._folder):
            for name in names:
                path = os.path.join(folder, name)
                with suppress(FileNotFoundError):
                    status = os.stat(path)
                    found[path] = status.st_ino, status.st_size, status.st_mtime_ns
        return found

    def poll(self) -> None:
        """Reads the folder once."""
        self.polls += 1
        self._read_list()
        if not self._folder.exists():
            return
        table = ds.dataset(self._folder, format="parquet").to_table()
        rows = Counter(zip(*table.to_pydict().values(), strict=True))
        twice = [row for row, count in rows.items() if count > 1]
        if twice:
            self.problems.append(f"poll {self.polls}: rows are there twice: {twice[:3]}")
        if self._rows - rows:
            self.problems.append(f"poll {self.polls}: rows have gone")
        self._rows = rows

    def _read_list(self) -> None:
        """Whether the list has each micro-batch from the first sight on as it stays."""
        found = defaultdict(set)
        for file in committed_files(str(self._folder)):
            name = Path(file).name
            found[name.rpartition("-")[0]].add(name)
        for batch, files in self._batches.items():
            if found[batch] != files:
                self.problems.append(f"poll {self.polls}: {batch} was told in part")
        self._batches = {batch: frozenset(files) for batch, files in found.items()}

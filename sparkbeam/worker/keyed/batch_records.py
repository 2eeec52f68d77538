"""Records of keys in batch, where all elements of a key are in one bundle.

Records are in memory, except for content that is too large for them. Beyond about 64 MiB that
content is in a private temporary file, which ends with the process.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from sparkbeam.worker.state.entries import CACHE_BYTES, EntryCache, Overflow
from sparkbeam.worker.state.records import Record


class TemporaryMap:
    """A map in a temporary file, created with the first put."""

    def __init__(self) -> None:
        self._database: sqlite3.Connection | None = None

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        if self._database is None:
            return [None] * len(keys)
        find = self._database.execute
        rows = (find("SELECT value FROM entries WHERE key = ?", (key,)).fetchone() for key in keys)
        return [None if row is None else row[0] for row in rows]

    def put(self, items: Mapping[bytes, bytes]) -> None:
        if self._database is None:
            self._database = _opened()
        self._database.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", items.items())

    def delete(self, keys: Iterable[bytes]) -> None:
        if self._database is not None:
            self._database.executemany(
                "DELETE FROM entries WHERE key = ?", ((key,) for key in keys)
            )

    def close(self) -> None:
        """Remove the file."""
        if self._database is not None:
            self._database.close()
            self._database = None


def _opened() -> sqlite3.Connection:
    # SQLite makes a file for a database without a name, and unlinks it at once.
    database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA journal_mode = OFF")
    database.execute("PRAGMA synchronous = OFF")
    database.execute("CREATE TABLE entries (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
    return database


class MemoryRecords:
    """Records that are kept in memory until they are forgotten.

    Args:
        cache_bytes: the approximate size of large content that is kept in memory.
    """

    overflow: Overflow

    def __init__(self, cache_bytes: int = CACHE_BYTES) -> None:
        self._cache_bytes = cache_bytes
        self._map = TemporaryMap()
        self.forget()

    def record(self, key: bytes) -> Record:
        """Return the record of a key, created if there is none."""
        found = self._records.get(key)
        if found is None:
            found = self._records[key] = Record(key, self)
        return found

    def forget(self) -> None:
        """Drop all records."""
        self._records: dict[bytes, Record] = {}
        self._map.close()
        self.overflow = Overflow(EntryCache(self._map, self._cache_bytes), b"", 0, 0)

    def changed(self, key: bytes, growth: int) -> None:
        """Ignore the change, as nothing is going to be stored."""

    def rescheduled(self) -> None:
        """Do nothing: the code that sets timers fires them, key by key."""

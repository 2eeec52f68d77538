"""The records of keys in memory, for a batch, where all elements of a key meet in one bundle."""

import sys

from sparkbeam.worker.state.entries import EntryCache, Overflow
from sparkbeam.worker.state.records import Record
from sparkbeam.worker.state.store import MemoryMap


class MemoryRecords:
    """Makes records, and keeps them until they are forgotten."""

    overflow: Overflow

    def __init__(self) -> None:
        self.forget()

    def record(self, key: bytes) -> Record:
        """The record of a key, made if there is none."""
        found = self._records.get(key)
        if found is None:
            found = self._records[key] = Record(key, self)
        return found

    def forget(self) -> None:
        """Drops all records."""
        self._records: dict[bytes, Record] = {}
        self.overflow = Overflow(EntryCache(MemoryMap(), sys.maxsize), b"", 0, 0)

    def changed(self, key: bytes, growth: int) -> None:
        """Nothing is going to be stored."""

    def rescheduled(self) -> None:
        """Whoever sets timers fires them, key by key."""

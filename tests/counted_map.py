"""A map in memory that counts how it is accessed, as Spark's state store would be."""

from collections.abc import Iterable, Mapping, Sequence

from sparkbeam.worker.state.store import MemoryMap


class CountedMap(MemoryMap):
    """A map in memory.

    Attributes:
        reads: the number of keys asked for.
        trips: the number of accesses for them.
        writes: the number of keys put or deleted.
        put_bytes: the number of bytes put.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.trips = 0
        self.writes = 0
        self.put_bytes = 0

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self.reads += len(keys)
        self.trips += 1
        return super().get(keys)

    def put(self, items: Mapping[bytes, bytes]) -> None:
        self.writes += len(items)
        self.put_bytes += sum(len(key) + len(value) for key, value in items.items())
        super().put(items)

    def delete(self, keys: Iterable[bytes]) -> None:
        gone = list(keys)
        self.writes += len(gone)
        super().delete(gone)

"""A map in memory that counts how it is accessed, as Spark's state store would be."""

from collections.abc import Iterable, Mapping, Sequence

from sparkbeam.worker.state.store import MemoryMap


class CountedMap(MemoryMap):
    """Counts keys that are read, calls for them, keys that are written, and bytes of these."""

    reads = trips = writes = put_bytes = 0

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

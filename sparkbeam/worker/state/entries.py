"""Entries of a byte map as objects, in a cache that writes them back when it is full."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

from sparkbeam.worker.state.contents import dumps, loads
from sparkbeam.worker.state.store import ByteMap

CACHE_BYTES = 64 << 20
"""Approximate stored size of the entries kept in memory."""

_PUT_BYTES = 8 << 20
_ANNOUNCED = 128

Ahead = Callable[[int], Iterator[Iterable[int]]]
"""Function that lists the entries of a read, level by level, up to a number of bytes.

Those of one level are in memory before the next level is listed.
"""


class Entry:
    """One entry of the map.

    Attributes:
        content: the stored content; not used by derived classes that pack something else.
        size: the bytes that it takes, as stored or by estimate.
        dirty: True if the map does not have the current content.
        used: the time of the last use, in the cache's own time.
    """

    __slots__ = ("content", "dirty", "name", "size", "stored", "used")

    def __init__(self, name: bytes, content: Any, size: int, stored: bool) -> None:
        self.name = name
        self.content = content
        self.size = size
        self.dirty = False
        self.stored = stored
        self.used = 0

    def pack(self) -> bytes | None:
        """Return the bytes to store; None if there is to be no entry."""
        return dumps(self.content)

    def written(self) -> dict[bytes, bytes | None]:
        """Return the entries to put into the map, None for removals; they count as stored then.

        Sets ``size`` and ``stored``.
        """
        data = self.pack()
        was_stored, self.stored = self.stored, data is not None
        self.size = len(data) if data is not None else 0
        return {self.name: data} if data is not None or was_stored else {}

    def names(self) -> list[bytes]:
        """Return the names of the entry in the map."""
        return [self.name]

    def follow(self, gone: "Entry") -> None:
        """Take the place of an entry that the map still has."""
        self.stored = True

    def in_use(self) -> bool:
        """Return whether a caller holds a part that may still change."""
        return False

    def release(self) -> None:
        """Release the entry, which has been written and leaves the cache."""


class EntryCache:
    """The entries of a map that have been read, changed or made.

    Nothing is written before :meth:`trim` or :meth:`flush` is called: until then, an entry
    that was asked for stays the one that counts.

    Attributes:
        size: the bytes of the entries here, by estimate; whoever lets one grow adds to it.
        clock: the cache's own time, which determines the least recently used entry.
    """

    def __init__(self, entries: ByteMap, limit: int = CACHE_BYTES) -> None:
        self._map = entries
        self._limit = limit
        self._entries: dict[bytes, Entry] = {}
        self.clock = 0
        self.size = 0

    @property
    def room(self) -> int:
        """Number of bytes that may be loaded before entries have to go."""
        return max(0, self._limit - self.size)

    @property
    def full(self) -> bool:
        """True if :meth:`trim` has to be called."""
        return self.size > self._limit

    def fetch(self, names: Sequence[bytes]) -> list[bytes | None]:
        """Return the values in the map of names that are not in memory, in one access."""
        return self._map.get(names)

    def load(self, names: Sequence[bytes]) -> list[Entry]:
        """Return existing entries; those not in memory are read in one access."""
        self.tick()
        known = self._entries
        missing = [name for name in names if name not in known]
        if missing:
            for name, data in zip(missing, self._map.get(missing), strict=True):
                if data is None:
                    raise KeyError(f"The entry {name.hex()} of the state is missing")
                known[name] = Entry(name, loads(data), len(data), stored=True)
                self.size += len(data)
        found = [known[name] for name in names]
        for entry in found:
            entry.used = self.clock
        return found

    def entry(self, name: bytes) -> Entry:
        """Return an entry that exists."""
        found = self._entries.get(name)
        if found is None:
            return self.load([name])[0]
        self.clock += 1
        found.used = self.clock
        return found

    def tick(self) -> None:
        """Advance the cache's time."""
        self.clock += 1

    def peek(self, names: Sequence[bytes]) -> list[Any]:
        """Return the contents of entries, read-only; what is read for this is not kept."""
        contents = {name: self._entries[name].content for name in names if name in self._entries}
        missing = [name for name in names if name not in contents]
        found = self._map.get(missing) if missing else ()
        for name, data in zip(missing, found, strict=True):
            if data is None:
                raise KeyError(f"The entry {name.hex()} of the state is missing")
            contents[name] = loads(data)
        return [contents[name] for name in names]

    def create(self, name: bytes, content: Any, size: int) -> Entry:
        """Return a new entry of about this many bytes."""
        entry = Entry(name, content, size, stored=False)
        entry.dirty = True
        self.add(entry)
        return entry

    def add(self, entry: Entry) -> None:
        """Add an entry made elsewhere."""
        entry.used = self.clock
        before = self._entries.get(entry.name)
        if type(before) is _Gone:
            entry.follow(before.entry)
        self._entries[entry.name] = entry
        self.size += entry.size

    def resize(self, entry: Entry, size: int) -> None:
        """Record that an entry has changed, with its new approximate size."""
        self.size += size - entry.size
        entry.size = size
        entry.dirty = True

    def delete(self, names: Iterable[bytes]) -> None:
        """Remove stored entries, be they in memory or not, with the next :meth:`flush`."""
        for name in names:
            entry = self._entries.get(name)
            if entry is None:
                entry = Entry(name, None, 0, stored=True)
                self.add(entry)
            self.drop(entry)

    def drop(self, entry: Entry) -> None:
        """Remove an entry with the next :meth:`flush`."""
        self.size -= entry.size
        if entry.stored:
            self._entries[entry.name] = _Gone(entry)
        else:
            del self._entries[entry.name]

    def trim(self) -> None:
        """Write back and forget the least recently used entries if there is too much."""
        if self.size <= self._limit:
            return
        idle = [entry for entry in self._entries.values() if not entry.in_use()]
        idle.sort(key=attrgetter("used"))
        going = []
        size = self.size
        for entry in idle:
            if size <= self._limit // 2:
                break
            size -= entry.size
            going.append(entry)
        self._write(going)
        for entry in going:
            self.size -= entry.size
            del self._entries[entry.name]
            entry.release()

    def flush(self) -> None:
        """Write all changes."""
        self._write(list(self._entries.values()))
        for name in [name for name, entry in self._entries.items() if type(entry) is _Gone]:
            del self._entries[name]

    def forget(self) -> None:
        """Forget all entries, including unwritten changes."""
        self._entries.clear()
        self.size = 0

    def _write(self, entries: list[Entry]) -> None:
        items: dict[bytes, bytes] = {}
        deleted: list[bytes] = []
        size = 0
        for entry in entries:
            if not entry.dirty:
                continue
            before = entry.size
            for name, data in entry.written().items():
                if data is None:
                    deleted.append(name)
                else:
                    items[name] = data
                    size += len(data)
            self.size += entry.size - before
            entry.dirty = False
            if size > _PUT_BYTES:
                self._map.put(items)
                items, size = {}, 0
        if items:
            self._map.put(items)
        if deleted:
            self._map.delete(deleted)


class _Gone(Entry):
    """Placeholder of an entry that the map still has."""

    __slots__ = ("entry",)

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry.name, None, 0, stored=True)
        self.entry = entry
        self.dirty = True

    def written(self) -> dict[bytes, bytes | None]:
        return dict.fromkeys(self.entry.names())


class Overflow:
    """Entries with running numbers, for content that is too large for the records of a stage.

    Args:
        next_number: of the next entry; a number is never used twice.
        size: bytes of all entries.
    """

    def __init__(self, cache: EntryCache, prefix: bytes, next_number: int, size: int) -> None:
        self.cache = cache
        self.next_number = next_number
        self.size = size
        self._prefix = prefix
        self._announced: list[Ahead] = []

    def announce(self, ahead: Ahead) -> None:
        """Announce a read, to be part of the next access with all other announced reads."""
        self._announced.append(ahead)
        if len(self._announced) >= _ANNOUNCED:
            self._read_announced()

    def forget_announced(self) -> None:
        """Drop the announcements of reads that have not followed."""
        self._announced.clear()

    def _read_announced(self) -> None:
        """Read the announced entries that memory has room for, each level in one access."""
        announced, self._announced = self._announced, []
        share = self.cache.room // 2 // len(announced)
        reads = [ahead(share) for ahead in announced]
        while numbers := dict.fromkeys(chain.from_iterable(next(read, ()) for read in reads)):
            self.load(numbers)

    def create(self, content: Any, size: int) -> int:
        """Return the number of a new entry."""
        number = self.next_number
        self.next_number += 1
        self.size += size
        self.cache.create(self._name(number), content, size)
        return number

    def load(self, numbers: Iterable[int]) -> list[Entry]:
        """Return entries, to be changed or read more than once."""
        if self._announced:
            self._read_announced()
        return self.cache.load([self._name(number) for number in numbers])

    def entry(self, number: int) -> Entry:
        """Return one entry, as :meth:`load` gives it."""
        if self._announced:
            self._read_announced()
        return self.cache.entry(self._name(number))

    def peek(self, numbers: Iterable[int]) -> list[Any]:
        """Return the contents of entries, to be read once."""
        if self._announced:
            self._read_announced()
        return self.cache.peek([self._name(number) for number in numbers])

    def resize(self, entry: Entry, before: int, after: int) -> None:
        """Record that an entry has changed, with its estimated bytes before and after."""
        self.size += after - before
        self.cache.resize(entry, after)

    def delete(self, numbers: Iterable[int], size: int) -> None:
        """Remove entries of this many bytes in total."""
        self.size -= size
        self.cache.delete([self._name(number) for number in numbers])

    def _name(self, number: int) -> bytes:
        return self._prefix + number.to_bytes(8, "big")

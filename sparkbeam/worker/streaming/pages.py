"""The state of a shard: the records of many keys in few entries of the state store.

Keys are hashed into pages of about 8 KiB, and a page is one entry. A micro-batch that touches
many keys reads and writes their pages, a hundred or so in one access. See ``directory.py`` for
which page a key is in, ``records.py`` for what a record has.
"""

import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from sparkbeam.worker.streaming.directory import (
    EVENT,
    HOLD,
    NEVER,
    PROCESSING,
    Directory,
    address,
    hash_key,
)
from sparkbeam.worker.streaming.entries import (
    CACHE_BYTES,
    Entry,
    EntryCache,
    Overflow,
    pack,
    unpack,
)
from sparkbeam.worker.streaming.records import Record, schedule
from sparkbeam.worker.streaming.store import ByteMap
from sparkbeam.worker.timers import EVENT_TIME, PROCESSING_TIME

PAGE_BYTES = 8 << 10
"""A stage has more pages when their mean is over this size."""

_ROOT = b"root"
_PAGES, _DIRECTORY, _OVERFLOW = b"p", b"d", b"o"
_COLUMNS = {EVENT_TIME: EVENT, PROCESSING_TIME: PROCESSING}
_GROUP = 64
_STEP = 256
_FIRST_LOOK = 1000


class ShardState:
    """All state of a shard, for one micro-batch.

    Nothing is certain to be written before :meth:`save`; some of it may be. Whoever drops the
    object without that has to drop what was written, too, as a failed micro-batch does.

    Args:
        entries: the map that has the state, the shard's own.
        cache_bytes: about how much of it is kept in memory, as stored.
    """

    def __init__(self, entries: ByteMap, cache_bytes: int = CACHE_BYTES) -> None:
        self._entries = entries
        self._cache = EntryCache(entries, cache_bytes)
        self._stored = entries.get([_ROOT])[0]
        self._values: dict[str, Any]
        self._roots: dict[str, Any]
        self._values, self._roots = unpack(self._stored) if self._stored else ({}, {})
        self._stages: dict[str, KeyedState] = {}

    def value(self, name: str) -> Any:
        """A small value, None if it was never set."""
        return self._values.get(name)

    def set_value(self, name: str, value: Any) -> None:
        """Sets a small value: anything picklable; None removes it."""
        if value is None:
            self._values.pop(name, None)
        else:
            self._values[name] = value

    def stage(self, name: str) -> "KeyedState":
        """The records of a stage."""
        found = self._stages.get(name)
        if found is None:
            number, root = self._roots.get(name) or (len(self._roots), None)
            found = self._stages[name] = KeyedState(self._cache, number, root)
            self._roots[name] = (number, root)
        return found

    def save(self) -> None:
        """Writes all that has changed. Records may be used afterwards, and saved again."""
        for name, stage in self._stages.items():
            self._roots[name] = (self._roots[name][0], stage.settle())
        self._cache.flush()
        root = pack((self._values, self._roots))
        if root != self._stored:
            self._entries.put({_ROOT: root})
            self._stored = root


class KeyedState:
    """The records of a stage's keys in one shard; made by :meth:`ShardState.stage`."""

    def __init__(self, cache: EntryCache, number: int, root: Any) -> None:
        name = number.to_bytes(2, "big")
        directory, next_number, size = root or (None, 0, 0)
        self.overflow = Overflow(cache, name + _OVERFLOW, next_number, size)
        self._cache = cache
        self._name = name + _PAGES
        self._directory = Directory(cache, name + _DIRECTORY, directory)
        self._pages: dict[int, _Page] = {}
        self._ahead: list[int] = []
        self._rescheduled: list[_Page] = []
        self._created = 0
        self._look_at = max(_FIRST_LOOK, self._directory.records)
        self._walks = 0

    @property
    def size(self) -> tuple[int, int]:
        """Records and bytes, as of the last :meth:`ShardState.save`."""
        return self._directory.records, self._directory.size + self.overflow.size

    def prefetch(self, keys: Collection[bytes]) -> None:
        """Loads the pages of many keys at once.

        Where they are more than fit into memory, the rest follows as :meth:`record` comes to
        it: keys should be in the order in which they are going to be used.
        """
        self._cache.trim()
        pages = self._directory.pages
        numbers = dict.fromkeys(address(hash_key(key), pages) for key in keys)
        self._directory.load(numbers)
        wanted = [number for number in numbers if number not in self._pages]
        fitting, room = 0, self._cache.room // 2
        for number in wanted:
            room -= self._directory.page_size(number)
            if room < 0:
                break
            fitting += 1
        self._load(wanted[:fitting])
        self._ahead = wanted[fitting:][::-1]

    def record(self, key: bytes) -> Record:
        """The record of a key, made if there is none; an empty one is not stored.

        It is the same object as long as somebody has it.
        """
        if self._cache.full:
            self._cache.trim()
        number = address(hash_key(key), self._directory.pages)
        page = self._pages.get(number)
        if page is None:
            self._load(self._next(number))
            page = self._pages[number]
        page.used = self._cache.clock
        found = page.records.get(key)
        if type(found) is Record:
            return found
        record = Record(key, page, found)
        if found is None:
            self._created += 1
            if self._created > self._look_at and not self._walks:
                self._look()
                return self.record(key)
        page.records[key] = record
        return record

    def due_keys(self, domain: int, limit: int) -> Iterator[bytes]:
        """The keys with a timer in a domain that is due at a time, each once, page by page.

        The caller takes them by :meth:`Record.pop_due`, and may set others for the same key.
        A key that has none now may be left out, whatever happens to it meanwhile.
        """
        self._refresh()
        column = _COLUMNS[domain]
        for page in self._walk(list(self._directory.until(column, limit))):
            yield from page.due(domain, limit)

    def keys(self) -> Iterator[bytes]:
        """The keys of all records that are not empty, page by page."""
        for page in self._walk(range(self._directory.pages)):
            yield from [key for key, record in page.records.items() if _content(record)]

    def next_due(self, domain: int) -> int | None:
        """When the first timer in a domain fires, in microseconds; None if there is none."""
        self._refresh()
        return self._directory.minimum(_COLUMNS[domain])

    def hold(self) -> int | None:
        """The oldest hold of the watermark, in microseconds; None if there is none."""
        self._refresh()
        return self._directory.minimum(HOLD)

    def settle(self) -> Any:
        """Brings pages to their size before they are written; what to keep of this object."""
        pages = [page for page in self._pages.values() if page.dirty]
        for page in pages:
            page.packed = page.pack()
        directory = self._directory
        wanted = min(-(-directory.size // PAGE_BYTES), directory.records)
        if wanted > directory.pages:
            self._grow(wanted)
        elif directory.size < directory.pages * PAGE_BYTES // 4:
            self._shrink(max(1, 2 * directory.size // PAGE_BYTES))
        for page in list(self._pages.values()):
            if page.dirty and page.packed is None:
                page.packed = page.pack()
        self._refresh()
        return directory.root(), self.overflow.next_number, self.overflow.size

    def _next(self, number: int) -> list[int]:
        """A page that is needed, and some of those that were announced."""
        numbers = {number: None}
        while self._ahead and len(numbers) < _STEP:
            numbers[self._ahead.pop()] = None
        return list(numbers)

    def _load(self, numbers: Sequence[int]) -> None:
        """Brings pages into memory."""
        directory, cache = self._directory, self._cache
        directory.load(numbers)
        missing = [number for number in numbers if number not in self._pages]
        stored = [number for number in missing if directory.page_size(number)]
        found = cache.fetch([self._page_name(number) for number in stored]) if stored else []
        for number in missing:
            if not directory.page_size(number):
                self._add(_Page(self, number, {}, 0))
        for number, data in zip(stored, found, strict=True):
            if data is None:
                raise KeyError(f"The state has lost page {number} of a stage")
            self._add(_Page(self, number, unpack(data), len(data)))
        cache.tick()
        for number in numbers:
            self._pages[number].used = cache.clock

    def _add(self, page: "_Page") -> None:
        self._pages[page.number] = page
        self._cache.add(page)

    def _walk(self, numbers: Sequence[int]) -> Iterator["_Page"]:
        """Pages that are stored or changed, one by one; their number stays the same meanwhile."""
        self._walks += 1
        try:
            for low in range(0, len(numbers), _GROUP):
                self._cache.trim()
                group = numbers[low : low + _GROUP]
                self._directory.load(group)
                known = [n for n in group if n in self._pages or self._directory.page_size(n)]
                self._load(known)
                for number in known:
                    if number not in self._pages:
                        self._load([number])
                    yield self._pages[number]
        finally:
            self._walks -= 1

    def _look(self) -> None:
        """Makes more pages within a micro-batch, if many keys are new."""
        for page in list(self._pages.values()):
            if page.dirty:
                page.pack()
        self._created = 0
        self._look_at = max(_FIRST_LOOK, self._directory.records)
        wanted = min(-(-self._directory.size // PAGE_BYTES), self._directory.records)
        if wanted > self._directory.pages:
            self._grow(wanted)

    def _grow(self, pages: int) -> None:
        """Splits pages, in their turn, until there are so many."""
        while self._directory.pages < pages:
            before = self._directory.pages
            after = min(pages, before + _STEP)
            parents = sorted({address(number, before) for number in range(before, after)})
            self._load(parents)
            self._directory.resize(after)
            for parent in parents:
                self._spread(self._pages[parent])
            self._cache.trim()

    def _shrink(self, pages: int) -> None:
        """Merges the last pages with those that they came from, a number of them at a time."""
        before = self._directory.pages
        pages = max(pages, before - _STEP)
        leaving = range(pages, before)
        self._directory.load(leaving)
        leaving_pages = [
            number
            for number in leaving
            if number in self._pages or self._directory.page_size(number)
        ]
        self._load(leaving_pages)
        self._load(sorted({address(number, pages) for number in leaving_pages}))
        for number in leaving_pages:
            page = self._pages.pop(number)
            page.forget_times()
            self._directory.records -= page.count
            self._directory.set_size(number, 0)
            self._directory.set_times(number, (NEVER, NEVER, NEVER))
            self._move(page, page.records, self._pages[address(number, pages)])
            self._cache.drop(page)
        self._directory.resize(pages)

    def _spread(self, page: "_Page") -> None:
        """Moves those records of a page that belong into others now."""
        pages, own = self._directory.pages, page.number
        moving: dict[int, dict[bytes, Any]] = {}
        staying: dict[bytes, Any] = {}
        for key, record in page.records.items():
            number = address(hash_key(key), pages)
            part = staying if number == own else moving.setdefault(number, {})
            part[key] = record
        if not moving:
            return
        records, page.records = len(page.records), staying
        for number, part in moving.items():
            if number not in self._pages:
                self._add(_Page(self, number, {}, 0))
            self._move(page, part, self._pages[number])
        self._cache.resize(page, page.size * len(staying) // records)
        page.rescheduled()

    def _move(self, source: "_Page", records: dict[bytes, Any], target: "_Page") -> None:
        growth = source.size * len(records) // (len(source.records) + len(records) or 1)
        for record in records.values():
            if type(record) is Record:
                record.page = target
        target.records.update(records)
        target.changed(growth)
        target.rescheduled()

    def _refresh(self) -> None:
        """Brings what the directory knows of timers and holds up to date."""
        for page in self._rescheduled:
            page.note_times()
        self._rescheduled.clear()

    def _page_name(self, number: int) -> bytes:
        return self._name + number.to_bytes(4, "big")


class _Page(Entry):
    """Records, as pickled until somebody asks for them."""

    __slots__ = ("count", "number", "records", "stage", "stale")

    def __init__(
        self, stage: KeyedState, number: int, records: dict[bytes, Any], size: int
    ) -> None:
        super().__init__(stage._page_name(number), None, size, stored=size > 0)
        self.stage = stage
        self.number = number
        self.records = records
        self.count = len(records)
        self.stale = False

    @property
    def overflow(self) -> Overflow:
        return self.stage.overflow

    def changed(self, growth: int) -> None:
        self.dirty = True
        self.packed = None
        self.size += growth
        self.stage._cache.size += growth

    def rescheduled(self) -> None:
        if not self.stale:
            self.stale = True
            self.stage._rescheduled.append(self)

    def pack(self) -> bytes | None:
        contents = {key: _content(record) for key, record in self.records.items()}
        contents = {key: content for key, content in contents.items() if content}
        directory = self.stage._directory
        directory.records += len(contents) - self.count
        self.count = len(contents)
        data = pack(contents) if contents else None
        directory.set_size(self.number, len(data) if data else 0)
        return data

    def due(self, domain: int, limit: int) -> list[bytes]:
        """The keys with a timer that is due."""
        keys = []
        for key, record in self.records.items():
            found = schedule(record)
            if found and any(
                timer[0] <= limit and timer[1] == domain for timer in found[0].values()
            ):
                keys.append(key)
        return keys

    def note_times(self) -> None:
        """Tells the directory of the first timers and the oldest hold."""
        self.stale = False
        firsts = [NEVER, NEVER, NEVER]
        for record in self.records.values():
            found = schedule(record)
            if found is None:
                continue
            timers, holds = found
            for fire, domain, hold, _ in timers.values():
                column = _COLUMNS[domain]
                if fire < firsts[column]:
                    firsts[column] = fire
                if hold is not None and hold < firsts[HOLD]:
                    firsts[HOLD] = hold
            for hold in holds.values():
                if hold < firsts[HOLD]:
                    firsts[HOLD] = hold
        self.stage._directory.set_times(self.number, (firsts[0], firsts[1], firsts[2]))

    def forget_times(self) -> None:
        """Leaves the directory as it is."""
        if self.stale:
            self.stage._rescheduled.remove(self)
            self.stale = False

    def in_use(self) -> bool:
        return _held(self.records)

    def release(self) -> None:
        if self.stale:
            self.note_times()
            self.stage._rescheduled.remove(self)
        del self.stage._pages[self.number]


def _content(record: Any) -> Any:
    return record.content() if type(record) is Record else record


def _references(records: dict[bytes, Any]) -> int:
    most = 0
    for record in records.values():
        if type(record) is Record:
            most = max(most, sys.getrefcount(record))
    return most


def _held(records: dict[bytes, Any]) -> bool:
    """Somebody else has one of the records, and may change it."""
    return _references(records) > _UNHELD


_UNHELD = _references({b"": Record(b"", None)})  # type: ignore[arg-type]

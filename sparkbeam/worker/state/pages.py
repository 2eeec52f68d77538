"""The state of a shard: the records of many keys in few entries of the state store.

Keys are hashed into pages of 1 to 8 KiB. A micro-batch that touches many keys reads and writes
their pages, a hundred or so in one access. ``directory.py`` defines the page of a key, ``page.py``
the stored form of a page, ``records.py`` the content of a record.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from sparkbeam.wire import plaindata
from sparkbeam.worker.state.directory import EVENT, HOLD, Directory, address, addresses, hash_key
from sparkbeam.worker.state.entries import CACHE_BYTES, EntryCache, Overflow
from sparkbeam.worker.state.page import COLUMNS, Page, Thaw, delta_name, pages_for
from sparkbeam.worker.state.records import Hold, Record, holds
from sparkbeam.worker.state.store import ByteMap
from sparkbeam.worker.state.stripes import Places, Stripe

_ROOT = b"root"
_PAGES, _DIRECTORY, _OVERFLOW = b"p", b"d", b"o"
_GROUP = 64
_STEP = 256
_STEPS = 16
_FIRST_LOOK = 1000


class TooLarge(Exception):
    """Page that is larger than the limit of a read."""


class ShardState:
    """All state of a shard, for one micro-batch.

    Nothing is certain to be written before :meth:`save`; some of it may be. Whoever drops the
    object without that has to drop what was written, too, as a failed micro-batch does.

    Args:
        entries: the map that has the state, the shard's own.
        cache_bytes: the approximate stored size of the part kept in memory.
    """

    def __init__(self, entries: ByteMap, cache_bytes: int = CACHE_BYTES) -> None:
        self._entries = entries
        self.cache = EntryCache(entries, cache_bytes)
        self._stored = entries.get([_ROOT])[0]
        self._values: dict[str, Any]
        self._roots: dict[str, Any]
        self._values, self._roots = plaindata.loads(self._stored) if self._stored else ({}, {})
        self._stages: dict[str, KeyedState] = {}

    def value(self, name: str) -> Any:
        """Return a small value; None if it was never set."""
        return self._values.get(name)

    def set_value(self, name: str, value: Any) -> None:
        """Set a small value: plain data; None removes it."""
        if value is None:
            self._values.pop(name, None)
        else:
            self._values[name] = value

    def stage(self, name: str) -> "KeyedState":
        """Return the records of a stage."""
        found = self._stages.get(name)
        if found is None:
            number, root = self._roots.get(name) or (len(self._roots), None)
            found = self._stages[name] = KeyedState(self.cache, number, root)
            self._roots[name] = (number, root)
        return found

    def save(self) -> None:
        """Write all changes. Records may be used afterwards, and saved again."""
        for name, stage in self._stages.items():
            self._roots[name] = (self._roots[name][0], stage.adjust_size())
        self.cache.flush()
        root = plaindata.dumps((self._values, self._roots))
        if root != self._stored:
            self._entries.put({_ROOT: root})
            self._stored = root

    def close(self) -> None:
        """Release the memory, after the last :meth:`save`.

        Stages, pages and records know each other, so without it all of that, and the cache with it,
        waits for the garbage collector.
        """
        for stage in self._stages.values():
            stage.close()
        self.cache.forget()


class KeyedState:
    """The records of a stage's keys in one shard; made by :meth:`ShardState.stage`.

    Attributes:
        thaw: makes records of rows of stripes; None if there are no stripes.
    """

    def __init__(self, cache: EntryCache, number: int, root: Any) -> None:
        name = number.to_bytes(2, "big")
        directory, next_number, size = root or (None, 0, 0)
        self.overflow = Overflow(cache, name + _OVERFLOW, next_number, size)
        self.cache = cache
        self._name = name + _PAGES
        self.directory = Directory(cache, name + _DIRECTORY, directory)
        self._pages: dict[int, Page] = {}
        self.thaw: Thaw | None = None
        self._ahead: list[int] = []
        self._rescheduled: dict[int, Page] = {}
        self._created = 0
        self._look_at = max(_FIRST_LOOK, self.directory.records)
        self._walks = 0

    @property
    def size(self) -> tuple[int, int]:
        """Number of records and bytes, as of the last :meth:`ShardState.save`."""
        return self.directory.records, self.directory.size + self.overflow.size

    def prefetch(self, keys: Collection[bytes]) -> None:
        """Load the pages of many keys at once.

        If they do not all fit into memory, the rest follows as :meth:`record` comes to
        it: keys should be in the order of their later use.
        """
        self.cache.trim()
        pages = self.directory.pages
        numbers = dict.fromkeys(address(hash_key(key), pages) for key in keys)
        self.directory.load(numbers)
        wanted = [number for number in numbers if number not in self._pages]
        fitting, room = 0, self.cache.room // 2
        for number in wanted:
            room -= self.directory.page_size(number)
            if room < 0:
                break
            fitting += 1
        self._load(wanted[:fitting])
        self._ahead = wanted[fitting:][::-1]

    def record(self, key: bytes) -> Record:
        """Return the record of a key, created if there is none; an empty one is not stored.

        It is the same object as long as it is referenced.
        """
        if self.cache.full:
            self.cache.trim()
        number = address(hash_key(key), self.directory.pages)
        page = self._pages.get(number)
        if page is None:
            self._load(self._next(number))
            page = self._pages[number]
        page.used = self.cache.clock
        live = page.live.get(key)
        if live is not None:
            return live
        if page.stripes:
            page.to_records([key])
            live = page.live.get(key)
            if live is not None:
                return live
        content = page.records.get(key)
        if content is None:
            self._created += 1
            if self._grow_for_new_keys():
                return self.record(key)
        return page.open(key, content)

    def by_page(self, keys: Sequence[bytes]) -> Iterator[tuple[Page, list[bytes]]]:
        """Yield the pages of many keys, each with its keys; a page may come again.

        The caller may change the records of these keys in a page until it requests the next page,
        and requests no record meanwhile.
        """
        for page, places in chain.from_iterable(self.places_by_page(keys)):
            some = [keys[place] for place in places.tolist()]
            if page.stripes:
                page.to_records(some)
            yield page, some

    def places_by_page(self, keys: Sequence[bytes]) -> Iterator[list[tuple[Page, Places]]]:
        """Yield some pages at a time, each with the positions of its keys.

        As :meth:`by_page`, but keys may be in stripes of the page.
        """
        low = 0
        while low < len(keys):
            self._grow_for_new_keys()
            some = keys[low : low + max(_FIRST_LOOK, self.directory.records)]
            numbers = np.array(addresses(some, self.directory.pages))
            order = np.argsort(numbers, kind="stable")
            found, firsts = np.unique(numbers[order], return_index=True)
            in_page = dict(zip(found.tolist(), np.split(order + low, firsts[1:]), strict=True))
            low += len(some)
            for group in self._groups(list(in_page), make=True):
                pages = [self._pages[number] for number in group]
                before = sum(map(len, pages))
                yield [(page, in_page[page.number]) for page in pages]
                self._created += sum(map(len, pages)) - before

    def due_stripes(self, limit: int) -> Iterator[list[tuple[Page, Stripe]]]:
        """Yield the stripes of windows that are due at a time, of some pages at a time.

        The caller replaces or drops them, or makes records of them.
        """
        self._refresh()
        for group in self._groups(list(self.directory.until(EVENT, limit))):
            pages = [self._pages[number] for number in group]
            yield [(page, stripe) for page in pages for stripe in page.due_stripes(limit)]

    def due_keys(self, domain: int, limit: int) -> Iterator[bytes]:
        """Yield the keys with a timer in a domain that is due at a time, each once, page by page.

        The caller takes them by :meth:`Record.pop_due`, and may set others for the same key.
        A key that has none now may be left out, whatever happens to it meanwhile.
        """
        self._refresh()
        column = COLUMNS[domain]
        for page in self._walk(list(self.directory.until(column, limit))):
            yield from page.due(domain, limit)

    def keys(self) -> Iterator[bytes]:
        """Yield the keys of all records that are not empty, page by page."""
        for page in self._walk(range(self.directory.pages)):
            yield from page.keys()

    def next_due(self, domain: int) -> int | None:
        """Return the time of the first timer in a domain, in microseconds; None without timers."""
        self._refresh()
        return self.directory.minimum(COLUMNS[domain])

    def hold(self) -> int | None:
        """Return the oldest hold of the watermark, in microseconds; None if there is none."""
        self._refresh()
        return self.directory.minimum(HOLD)

    def oldest_hold(self, most_bytes: int) -> Hold | None:
        """Return the hold on the watermark; None if there is none.

        Args:
            most_bytes: the size limit of a page that is read for it.

        Raises:
            TooLarge: the page is larger.
        """
        limit = self.hold()
        number = None if limit is None else next(self.directory.until(HOLD, limit), None)
        if number is None:
            return None
        if self.directory.page_size(number) > most_bytes:
            raise TooLarge
        self._load([number])
        found = (
            hold
            for key, record in self._pages[number].records.items()
            for hold in holds(key, record)
        )
        striped = (stripe.oldest() for stripe in self._pages[number].stripes.values())
        return min(
            chain(found, filter(None, striped)),
            default=None,
            key=lambda hold: (hold.micros, hold.key),
        )

    def adjust_size(self) -> Any:
        """Adjust the number of pages before they are written; return the state to keep."""
        self._prepare()
        directory = self.directory
        wanted = pages_for(directory.size, directory.records)
        if wanted > directory.pages:
            self._grow(wanted)
        elif 4 * wanted < directory.pages:
            self._shrink(max(1, 2 * wanted))
        self._prepare()
        self._refresh()
        return directory.root(), self.overflow.next_number, self.overflow.size

    def close(self) -> None:
        """Release pages and records, see :meth:`ShardState.close`."""
        for page in self._pages.values():
            page.keep({}, ())
        self._pages.clear()
        self.thaw = None

    def page_rescheduled(self, page: Page) -> None:
        """Note that the directory's times of the page are outdated."""
        self._rescheduled[page.number] = page

    def page_released(self, page: Page) -> None:
        """Forget the page, which has been written and leaves the memory."""
        if page.stale:
            page.note_times()
            del self._rescheduled[page.number]
        del self._pages[page.number]

    def _prepare(self) -> None:
        """Determine the entries to write for the changed pages."""
        for page in self._pages.values():
            if page.dirty and page.packed is None:
                page.prepare()

    def _next(self, number: int) -> list[int]:
        """Return a page that is needed, and some of those that were announced."""
        numbers = {number: None}
        while self._ahead and len(numbers) < _STEP:
            numbers[self._ahead.pop()] = None
        return list(numbers)

    def _load(self, numbers: Sequence[int]) -> None:
        """Load pages into memory."""
        pages, cache = self._pages, self.cache
        cache.tick()
        missing = []
        for number in numbers:
            if number in pages:
                pages[number].used = cache.clock
            else:
                missing.append(number)
        stored = dict(self.directory.stored(missing))
        names = []
        for number, has_delta in stored.items():
            name = self._page_name(number)
            names += [name, delta_name(name)] if has_delta else [name]
        parts = zip(names, cache.fetch(names) if names else (), strict=True)
        for number in missing:
            if number not in stored:
                self._add(number, self._page_name(number))
                continue
            name, base = next(parts)
            delta = next(parts)[1] if stored[number] else None
            if base is None or (stored[number] and delta is None):
                raise KeyError(f"Page {number} of the state of a stage is missing")
            self._add(number, name, (base, delta))

    def _add(
        self, number: int, name: bytes, stored: tuple[bytes, bytes | None] | None = None
    ) -> None:
        page = self._pages[number] = Page(self, name, number, stored)
        self.cache.add(page)

    def _walk(self, numbers: Sequence[int]) -> Iterator[Page]:
        """Yield stored or changed pages one by one; their number must not change meanwhile."""
        for group in self._groups(numbers):
            for number in group:
                if number not in self._pages:
                    self._load([number])
                yield self._pages[number]

    def _groups(self, numbers: Sequence[int], *, make: bool = False) -> Iterator[list[int]]:
        """Yield the numbers of stored or changed pages, after some at a time are loaded."""
        self._walks += 1
        try:
            for low in range(0, len(numbers), _GROUP):
                self.cache.trim()
                group = numbers[low : low + _GROUP]
                self.directory.load(group)
                known = [
                    n for n in group if make or n in self._pages or self.directory.page_size(n)
                ]
                self._load(known)
                yield known
        finally:
            self._walks -= 1

    def _grow_for_new_keys(self) -> bool:
        """Add pages in a micro-batch if many keys are new; return whether it has looked."""
        if self._created <= self._look_at or self._walks:
            return False
        self._prepare()
        self._created = 0
        self._look_at = max(_FIRST_LOOK, self.directory.records)
        wanted = pages_for(self.directory.size, self.directory.records)
        if wanted > self.directory.pages:
            self._grow(wanted)
        return True

    def _grow(self, pages: int) -> None:
        """Split pages, in turn, up to this number."""
        while self.directory.pages < pages:
            before = self.directory.pages
            after = min(pages, before + _STEP)
            parents = sorted({address(number, before) for number in range(before, after)})
            self._load(parents)
            self.directory.resize(after)
            for parent in parents:
                self._spread(self._pages[parent])
            self.cache.trim()

    def _shrink(self, pages: int) -> None:
        """Merge the last pages into those that they were split from, in batches."""
        before = self.directory.pages
        pages = max(pages, before - max(_STEP, before // _STEPS))
        leaving = range(pages, before)
        self.directory.load(leaving)
        leaving_pages = [
            number
            for number in leaving
            if number in self._pages or self.directory.page_size(number)
        ]
        self._load(leaving_pages)
        self._load(sorted({address(number, pages) for number in leaving_pages}))
        for number in leaving_pages:
            page = self._pages.pop(number)
            page.stale = False
            self._rescheduled.pop(number, None)
            page.leave()
            target = self._pages[address(number, pages)]
            self._move(page, page.records, list(page.stripes.values()), target)
            self.cache.drop(page)
        self.directory.resize(pages)

    def _spread(self, page: Page) -> None:
        """Move the records of a page that now belong to others."""
        pages, own = self.directory.pages, page.number
        moving: defaultdict[int, tuple[dict[bytes, Any], list[Stripe]]]
        moving = defaultdict(lambda: ({}, []))
        for key, record in page.records.items():
            moving[address(hash_key(key), pages)][0][key] = record
        for stripe in page.stripes.values():
            numbers = np.array(addresses(stripe.keys.to_pylist(), pages))
            for number, part in stripe.spread(numbers):
                moving[number][1].append(part)
        records, stripes = moving.pop(own, ({}, []))
        if not moving:
            return
        before = len(page)
        page.keep(records, stripes)
        for number, parts in moving.items():
            if number not in self._pages:
                self._add(number, self._page_name(number))
            self._move(page, *parts, self._pages[number])
        page.rewrite(page.size * len(page) // before)
        page.rescheduled()

    def _move(
        self, source: Page, records: dict[bytes, Any], stripes: list[Stripe], target: Page
    ) -> None:
        count = len(records) + sum(map(len, stripes))
        growth = source.size * count // (len(source) + count or 1)
        target.take(records, stripes)
        target.rewrite(target.size + growth)
        target.rescheduled()

    def _refresh(self) -> None:
        """Update the times of timers and holds in the directory."""
        for page in self._rescheduled.values():
            page.note_times()
        self._rescheduled.clear()

    def _page_name(self, number: int) -> bytes:
        return self._name + number.to_bytes(4, "big")

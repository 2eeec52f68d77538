"""A page: the records of some keys of a stage, as one entry of the state store or as two.

If a micro-batch changes few records of a page, they are written into a second, small entry, the
delta of the page. It grows until it has a third of the page's bytes; then the page is written as a
whole. Thus the bytes written for a change grow with the square root of a page, not with the page.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import pyarrow as pa

from sparkbeam.wire import plaindata
from sparkbeam.worker.state.directory import EVENT, HOLD, NEVER, PROCESSING, Directory
from sparkbeam.worker.state.entries import Entry, EntryCache, Overflow
from sparkbeam.worker.state.records import EVENT_TIME, PROCESSING_TIME, Record, schedule
from sparkbeam.worker.state.stripes import (
    AddUp,
    Numbers,
    OpenWindow,
    Places,
    Stripe,
    WindowStripe,
    stripe_of,
)

PAGE_BYTES = 8 << 10
"""Mean size of the pages of a stage, while the stage is not large."""

COLUMNS = {EVENT_TIME: EVENT, PROCESSING_TIME: PROCESSING}
"""Column of a directory that holds the first timers of a domain."""

_LARGE_BYTES = 8 << 20
_SMALLEST_BYTES = 1 << 10
_RECORDS = 16
_DELTA_PART = 3
_DELTA = b"+"


def pages_for(size: int, records: int) -> int:
    """Return the number of pages that a stage is to have.

    Beyond 8 MiB a micro-batch rarely touches all keys of a stage. Pages get smaller then, until
    they have 16 records each, or 1 KiB.

    Args:
        size: of all records, in bytes.
    """
    page = PAGE_BYTES
    if size > _LARGE_BYTES:
        least = min(PAGE_BYTES, max(_SMALLEST_BYTES, _RECORDS * size // max(1, records)))
        page = max(least, PAGE_BYTES * _LARGE_BYTES // size)
    return min(-(-size // page), records)


class PageOwner(Protocol):
    """The stage that a page belongs to."""

    cache: EntryCache
    directory: Directory
    overflow: Overflow
    thaw: "Thaw | None"

    def page_rescheduled(self, page: "Page") -> None:
        """Note that the directory's times of the page are outdated."""

    def page_released(self, page: "Page") -> None:
        """Forget the page, which has been written and leaves the memory."""


Thaw = Callable[["Page", Stripe, list[tuple[bytes, list[int]]]], None]
"""Function that gives a page records for keys that have been removed from a stripe.

It takes the keys with their positions in :attr:`.Stripe.all_columns`.
"""


class Page(Entry):
    """Records, in their stored form until they are accessed.

    Args:
        stored: the entry and its delta, None for a new page.

    Attributes:
        records: by key, as :class:`Record` or as the content of one.
        live: those that are a :class:`Record`, as they have been accessed; only these can be
            dirty or empty.
        stripes: the content of other keys in columns, by the names of the cells.
        count: the number of records that are not empty, according to the directory.
        has_delta: True if the map has an entry for the delta, which may be empty.
        packed: the entries to write, if up to date.
        stale: the directory does not know the times in the page.
    """

    __slots__ = (
        "_added",
        "_base_bytes",
        "_before",
        "_bytes",
        "_changed",
        "_delta",
        "_is_whole",
        "_next",
        "_scattered",
        "count",
        "has_delta",
        "live",
        "number",
        "owner",
        "packed",
        "records",
        "stale",
        "stripes",
    )

    def __init__(
        self,
        owner: PageOwner,
        name: bytes,
        number: int,
        stored: tuple[bytes, bytes | None] | None = None,
    ) -> None:
        base, delta = stored or (b"", None)
        self._bytes = len(base) + len(delta or b"")
        super().__init__(name, None, self._bytes, stored=stored is not None)
        self.owner = owner
        self.number = number
        self.records: dict[bytes, Any] = {}
        self.live: dict[bytes, Record] = {}
        self.stripes: dict[bytes, Stripe] = {}
        self._delta: dict[bytes, None] = {}
        if base:
            self.records, stripes = _parts(base, fresh=False)
            self.stripes = {stripe.cell: stripe for stripe in stripes}
        if delta:
            self._apply(*_parts(delta, fresh=True))
        self.count = self._count()
        self.has_delta = delta is not None
        self.packed: dict[bytes, bytes | None] | None = None
        self.stale = False
        self._before = [NEVER, NEVER, NEVER]
        self._added = [NEVER, NEVER, NEVER]
        self._scattered = False
        self._base_bytes = len(base)
        self._next = (self._base_bytes, self._delta, self.has_delta)
        self._is_whole = False
        self._changed: dict[bytes, None] = {}

    def _apply(self, records: dict[bytes, Any], stripes: list[Stripe]) -> None:
        for key, content in records.items():
            self._delta[key] = None
            if content is None:
                self.records.pop(key, None)
            else:
                self.records[key] = content
        if records:
            for stripe in self.stripes.values():
                stripe.pop(records)
            self._forget_empty()
        for stripe in stripes:
            known = self.stripes.setdefault(stripe.cell, stripe)
            if known is not stripe and not known.replace(stripe):
                raise ValueError("the parts of a page do not match")

    def __len__(self) -> int:
        """Return the number of records; a key in several stripes counts several times."""
        return len(self.records) + sum(map(len, self.stripes.values()))

    def _count(self) -> int:
        """Return the number of keys."""
        return len(self.records) + len(self._striped())

    def _striped(self) -> pa.Array:
        """Return the keys that are in stripes."""
        found = [stripe.keys.unique() for stripe in self.stripes.values()]
        if len(found) == 1:
            return found[0]
        return pa.concat_arrays(found).unique() if found else ()

    def keys(self) -> Iterator[bytes]:
        """Yield the keys of everything that is not empty."""
        yield from [key for key, record in self.records.items() if content_of(record)]
        if self.stripes:
            yield from self._striped().to_pylist()

    def add(
        self, window: OpenWindow, keys: pa.Array, numbers: Numbers, firsts: Places, add_up: AddUp
    ) -> bool:
        """Add runs of numbers to those of keys without a record; see :class:`WindowStripe`.

        Returns:
            False, with nothing changed, if they cannot be added.
        """
        stripe = self.stripes.get(window.cell)
        if stripe is None:
            stripe = WindowStripe(window, keys.slice(0, 0), [numbers[:0].copy()], True)
        assert isinstance(stripe, WindowStripe)
        growth = stripe.add(keys, numbers, firsts, add_up) if stripe.window == window else None
        if growth is None:
            return False
        self.stripes[window.cell] = stripe
        self.changed_all((), growth)
        if growth:
            self.scheduled(window.fires, window.hold)
        return True

    def to_records(self, keys: Iterable[bytes]) -> None:
        """Turn the stripes' content of some keys into records."""
        for stripe in self.stripes.values():
            found = stripe.pop(keys)
            if found:
                assert self.owner.thaw is not None
                self.owner.thaw(self, stripe, found)
        self._forget_empty()

    def _forget_empty(self) -> None:
        self.stripes = {cell: stripe for cell, stripe in self.stripes.items() if len(stripe)}

    def replace(self, stripe: Stripe, changed: Iterable[bytes]) -> None:
        """Put a stripe in the place of the one of its name.

        Args:
            changed: the keys that have no row any more, at least.
        """
        before = self.stripes.get(stripe.cell)
        self.stripes[stripe.cell] = stripe
        self.changed_all(changed, stripe.nbytes - (before.nbytes if before is not None else 0))
        self._forget_empty()
        self._scattered = True
        self.rescheduled()

    def drop(self, stripe: Stripe) -> None:
        """Remove a stripe."""
        del self.stripes[stripe.cell]
        self.rewrite(max(0, self.size - stripe.nbytes))
        self.rescheduled()

    def due_stripes(self, limit: int) -> list[Stripe]:
        """Return the stripes of windows that are due, the first ones first."""
        found = (stripe for stripe in self.stripes.values() if stripe.fires <= limit)
        return sorted(found, key=lambda stripe: stripe.fires)

    def open(self, key: bytes, content: Any) -> Record:
        """Make the content of a record live; the content is None if there is none yet."""
        record = self.records[key] = self.live[key] = Record(key, self, content)
        if type(content) is tuple:
            self._before = list(map(min, self._before, _firsts([record])))
        return record

    def keep(self, records: dict[bytes, Any], stripes: Iterable[Stripe]) -> None:
        """Release all but some of the records and parts of stripes."""
        self.records = records
        self.stripes = {stripe.cell: stripe for stripe in stripes}
        self.live = {key: record for key, record in self.live.items() if key in records}

    def take(self, records: dict[bytes, Any], stripes: Iterable[Stripe]) -> None:
        """Take over records and parts of stripes from another page."""
        for stripe in stripes:
            known = self.stripes.setdefault(stripe.cell, stripe)
            if known is not stripe and not known.extend(stripe):
                self.to_records(known.keys.to_pylist())
                self.stripes[stripe.cell] = stripe
        self.records.update(records)
        for key, record in records.items():
            if type(record) is Record:
                record.page = self
                self.live[key] = record

    @property
    def overflow(self) -> Overflow:
        """Overflow of the large collections of the records."""
        return self.owner.overflow

    def changed(self, key: bytes, growth: int) -> None:
        """Note that the record of a key has changed, and its growth in bytes."""
        self._changed[key] = None
        self.dirty = True
        self.packed = None
        growth = max(growth, -self.size)
        self.size += growth
        self.owner.cache.size += growth

    def changed_all(self, keys: Iterable[bytes], growth: int) -> None:
        """Note changed contents of keys without a live record, and their common growth."""
        self._changed.update(dict.fromkeys(keys))
        self.dirty = True
        self.packed = None
        growth = max(growth, -self.size)
        self.size += growth
        self.owner.cache.size += growth

    def scheduled(self, fire: int, hold: int) -> None:
        """Note a new event-time timer and hold of contents without a live record."""
        self._added[EVENT] = min(self._added[EVENT], fire)
        self._added[HOLD] = min(self._added[HOLD], hold)
        self.rescheduled()

    def rewrite(self, size: int) -> None:
        """Note that records have come or gone, and the approximate size of the page now."""
        self.owner.cache.resize(self, size)
        self.packed = None
        self._base_bytes = 0
        self._scattered = True

    def rescheduled(self) -> None:
        """Note that timers or holds of a record have changed."""
        if not self.stale:
            self.stale = True
            self.owner.page_rescheduled(self)

    def prepare(self) -> None:
        """Determine the entries to write, and update the directory."""
        empty = [record for record in self.live.values() if not record.content()]
        count = self._count() - len(empty)
        self.packed = self._packed_delta() or self._packed_whole()
        base_bytes, _, has_delta = self._next
        size = base_bytes + len(self.packed.get(self._delta_name) or b"")
        directory = self.owner.directory
        directory.records += count - self.count
        directory.size += size - self._bytes
        directory.note(self.number, size, delta=has_delta)
        self.count, self._bytes = count, size

    def _packed_delta(self) -> dict[bytes, bytes | None] | None:
        """Return the changes since the page was written as a whole, unless there are too many."""
        changed = {**self._delta, **self._changed}
        fresh = sum(int(stripe.is_fresh.sum()) for stripe in self.stripes.values())
        if not self._base_bytes or (len(changed) + fresh) * _DELTA_PART > len(self):
            return None
        get = self.records.get
        contents = {key: content_of(get(key)) for key in changed}
        delta = _packed(
            contents, (stripe.part(stripe.is_fresh) for stripe in self.stripes.values())
        )
        if len(delta) * _DELTA_PART > self._base_bytes:
            return None
        self._next, self._is_whole = (self._base_bytes, changed, True), False
        return {self._delta_name: delta}

    def _packed_whole(self) -> dict[bytes, bytes | None]:
        contents = {key: content_of(record) for key, record in self.records.items()}
        contents = {key: content for key, content in contents.items() if content}
        data = _packed(contents, self.stripes.values()) if contents or self.stripes else None
        self._next = (len(data or b""), {}, self.has_delta and data is not None)
        self._is_whole = True
        packed: dict[bytes, bytes | None] = {}
        if data is not None or self.stored:
            packed[self.name] = data
        if self.has_delta:
            # An empty delta costs what its removal does, and the directory stays as it is.
            packed[self._delta_name] = None if data is None else b""
        return packed

    def written(self) -> dict[bytes, bytes | None]:
        if self.packed is None:
            self.prepare()
        packed, self.packed = self.packed, None
        assert packed is not None
        self._base_bytes, self._delta, self.has_delta = self._next
        self._changed = {}
        if self._is_whole:
            for stripe in self.stripes.values():
                stripe.mark_written()
        self.stored = self._base_bytes > 0
        self.size = self._bytes
        return packed

    def names(self) -> list[bytes]:
        return [self.name, self._delta_name] if self.has_delta else [self.name]

    def follow(self, gone: Entry) -> None:
        super().follow(gone)
        assert isinstance(gone, Page)
        self.has_delta = gone.has_delta

    def leave(self) -> None:
        """Take the page out of the directory; its records go elsewhere."""
        directory = self.owner.directory
        directory.records -= self.count
        directory.size -= self._bytes
        directory.note(self.number, 0, delta=False)
        directory.set_times(self.number, (NEVER, NEVER, NEVER))

    @property
    def _delta_name(self) -> bytes:
        return delta_name(self.name)

    def due(self, domain: int, limit: int) -> list[bytes]:
        """Return the keys with a timer that is due."""
        keys = []
        for key, record in self.records.items():
            found = schedule(record)
            if found and any(
                timer[0] <= limit and timer[1] == domain for timer in found[0].values()
            ):
                keys.append(key)
        return keys

    def note_times(self) -> None:
        """Update the first timers and the oldest hold in the directory."""
        self.stale = False
        directory = self.owner.directory
        known, live = directory.times(self.number), _firsts(self.live.values())
        known = list(map(min, known, self._added))
        self._added = [NEVER, NEVER, NEVER]
        # The others have no time before those that are known. To tell the first of all they have
        # to be looked at only where a live record had that, and has a later one now.
        if self._scattered or any(
            before <= first < now
            for before, first, now in zip(self._before, known, live, strict=True)
        ):
            firsts = _firsts(self.records.values())
            for stripe in self.stripes.values():
                firsts[EVENT] = min(firsts[EVENT], stripe.fires)
                firsts[HOLD] = min(firsts[HOLD], stripe.hold)
            directory.set_times(self.number, firsts)
        else:
            directory.set_times(self.number, list(map(min, known, live)))
        self._before, self._scattered = live, False

    def in_use(self) -> bool:
        return _references(self.live) > _UNHELD

    def release(self) -> None:
        self.owner.page_released(self)


def delta_name(page: bytes) -> bytes:
    """Return the name of the entry beside a page."""
    return page + _DELTA


def _packed(contents: dict[bytes, Any], stripes: Iterable[Stripe]) -> bytes:
    """Pack the contents of records alone, or with stripes."""
    stored = [stripe.stored() for stripe in stripes if len(stripe)]
    return plaindata.dumps((contents, stored) if stored else contents)


def _parts(data: bytes, *, fresh: bool) -> tuple[dict[bytes, Any], list[Stripe]]:
    """Return the inverse of :func:`_packed`."""
    found = plaindata.loads(data)
    if type(found) is dict:
        return found, []
    contents, stored = found
    return contents, [stripe_of(some, fresh=fresh) for some in stored]


def _firsts(records: Iterable[Any]) -> list[int]:
    """Return the first timers and the oldest hold, in the order of a directory's columns."""
    firsts = [NEVER, NEVER, NEVER]
    for record in records:
        found = schedule(record)
        if found is None:
            continue
        timers, holds = found
        for fire, domain, hold, _ in timers.values():
            column = COLUMNS[domain]
            if fire < firsts[column]:
                firsts[column] = fire
            if hold is not None and hold < firsts[HOLD]:
                firsts[HOLD] = hold
        for hold in holds.values():
            if hold < firsts[HOLD]:
                firsts[HOLD] = hold
    return firsts


def content_of(record: Any) -> Any:
    """Return the stored content of a record; None if there is none."""
    return record.content() if type(record) is Record else record


def _references(live: dict[bytes, Record]) -> int:
    return max(map(sys.getrefcount, live.values()), default=0)


def _unheld() -> int:
    live = {b"": Record(b"", None)}  # type: ignore[arg-type]
    records = dict(live)
    return _references(live) if records else 0


_UNHELD = _unheld()
"""Reference count of a record that only its page refers to."""

"""Directory of the keys of a stage: linear hashing, and the known facts of each page.

The number of pages determines the page of each key (W. Litwin, "Linear hashing: a new tool for file
and table addressing", VLDB 1980). A page splits in two, or two pages merge, without a change to any
other page.
"""

import zlib
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from sparkbeam.worker.state.entries import Entry, EntryCache

NEVER = (1 << 63) - 1
"""Value for no time."""

EVENT, PROCESSING, HOLD = range(3)
"""Columns of a segment: first event-time timer, first processing-time timer, oldest hold."""

_SEGMENT_PAGES = 256
_NO_TIMES = array("q", [NEVER] * _SEGMENT_PAGES).tobytes()
_LENGTH_BITS = 0x7F
_HAS_DELTA = 0x80
_SIZES = [(3 << (note & _LENGTH_BITS)) >> 2 for note in range(256)]
_MIXER = 0x9E3779B97F4A7C15  # Spreads, so that a shard picked by a checksum uses all its pages.


def hash_key(key: bytes) -> int:
    """Return 32 bits of a key, the same in each process."""
    return (zlib.crc32(key) * _MIXER >> 32) & 0xFFFFFFFF


def address(hashed: int, pages: int) -> int:
    """Return the page of a hash among this many pages."""
    mask = (1 << (pages - 1).bit_length()) - 1
    page = hashed & mask
    return page if page < pages else hashed & (mask >> 1)


def addresses(keys: Collection[bytes], pages: int) -> list[int]:
    """Return the pages of many keys among this many pages."""
    hashed = np.fromiter(map(zlib.crc32, keys), np.uint64, len(keys))
    hashed = hashed * np.uint64(_MIXER) >> np.uint64(32)
    mask = (1 << (pages - 1).bit_length()) - 1
    found = hashed & np.uint64(mask)
    numbers: list[int] = np.where(found < pages, found, hashed & np.uint64(mask >> 1)).tolist()
    return numbers


class _Segment(Entry):
    """Known facts of 256 pages. A segment stays in memory once it was needed.

    Attributes:
        columns: times, in microseconds.
        notes: a byte for each page: the bits of its length, and whether it has a delta.
    """

    __slots__ = ("columns", "notes")

    def __init__(self, name: bytes, data: bytes | None) -> None:
        size = 8 * _SEGMENT_PAGES
        super().__init__(name, None, 4 * size, stored=data is not None)
        self.columns = [array("q", [NEVER]) * _SEGMENT_PAGES for _ in range(3)]
        self.notes = bytearray(_SEGMENT_PAGES)
        if data is not None:
            self.notes[:] = data[1 : 1 + _SEGMENT_PAGES]
            start = 1 + _SEGMENT_PAGES
            for column in range(3):
                if data[0] & 1 << column:
                    values = array("q")
                    values.frombytes(data[start : start + size])
                    self.columns[column] = values
                    start += size

    def pack(self) -> bytes | None:
        times = [column.tobytes() for column in self.columns]
        kept = [column for column in range(3) if times[column] != _NO_TIMES]
        head = sum(1 << column for column in kept)
        return bytes([head]) + self.notes + b"".join(times[column] for column in kept)

    def in_use(self) -> bool:
        return True


class Directory:
    """The pages of a stage.

    Args:
        root: the result of :meth:`root`; None for a new stage.

    Attributes:
        pages: the number of pages, at least one.
        records: in all pages, as stored.
        size: bytes of all pages, as stored. Whoever changes a page changes these two.
    """

    def __init__(self, cache: EntryCache, prefix: bytes, root: Any = None) -> None:
        self._cache = cache
        self._prefix = prefix
        self.pages: int
        self.records: int
        self.size: int
        self._minima: list[list[int]]
        self._segments: dict[int, _Segment] = {}
        if root is None:
            root = (1, 0, 0, [[NEVER], [NEVER], [NEVER]])
            self._add_segment(0, None)
        self.pages, self.records, self.size, self._minima = root
        self._changed: set[int] = set()

    def root(self) -> Any:
        """Return the part of the directory to store besides its segments."""
        self._summarize()
        return self.pages, self.records, self.size, self._minima

    def load(self, pages: Iterable[int]) -> None:
        """Load the segments of pages that are not in memory."""
        needed = {page // _SEGMENT_PAGES for page in pages}
        missing = sorted(needed - self._segments.keys())
        if missing:
            found = self._cache.fetch([self._name(segment) for segment in missing])
            for segment, data in zip(missing, found, strict=True):
                if data is None:
                    raise KeyError(f"Segment {segment} of a state directory is missing")
                self._add_segment(segment, data)

    def page_size(self, page: int) -> int:
        """Return the approximate size of a page in bytes; 0 if it is not stored."""
        return _SIZES[self._segment(page).notes[page % _SEGMENT_PAGES]]

    def stored(self, pages: Iterable[int]) -> Iterator[tuple[int, bool]]:
        """Yield the stored pages among some, and whether each is stored in two parts."""
        self.load(pages)
        segments = self._segments
        for page in pages:
            note = segments[page // _SEGMENT_PAGES].notes[page % _SEGMENT_PAGES]
            if note & _LENGTH_BITS:
                yield page, note >= _HAS_DELTA

    def note(self, page: int, size: int, *, delta: bool) -> None:
        """Record how a page is stored; its size to a power of two, as that seldom changes."""
        segment = self._segment(page)
        note = size.bit_length() | (_HAS_DELTA if delta else 0)
        if segment.notes[page % _SEGMENT_PAGES] != note:
            segment.notes[page % _SEGMENT_PAGES] = note
            segment.dirty = True

    def times(self, page: int) -> list[int]:
        """Return the recorded first timers and oldest hold of a page."""
        return [column[page % _SEGMENT_PAGES] for column in self._segment(page).columns]

    def set_times(self, page: int, times: Sequence[int]) -> None:
        """Record the first timers and the oldest hold of a page."""
        segment = self._segment(page)
        place = page % _SEGMENT_PAGES
        for column in range(3):
            if segment.columns[column][place] != times[column]:
                segment.columns[column][place] = times[column]
                segment.dirty = True
                self._changed.add(page // _SEGMENT_PAGES)

    def minimum(self, column: int) -> int | None:
        """Return the earliest time in a column."""
        self._summarize()
        least = min(self._minima[column])
        return None if least == NEVER else least

    def until(self, column: int, limit: int) -> Iterator[int]:
        """Yield the pages whose time in a column is not after a limit."""
        self._summarize()
        segments = [at for at, least in enumerate(self._minima[column]) if least <= limit]
        self.load(segment * _SEGMENT_PAGES for segment in segments)
        for segment in segments:
            times = self._segments[segment].columns[column]
            for place, time in enumerate(times):
                if time <= limit:
                    yield segment * _SEGMENT_PAGES + place

    def resize(self, pages: int) -> None:
        """Set the number of pages; removed pages have size 0 and no times."""
        before, self.pages = len(self._minima[0]), pages
        after = -(-pages // _SEGMENT_PAGES)
        for segment in range(before, after):
            self._add_segment(segment, None)
            for column in self._minima:
                column.append(NEVER)
        self.load(segment * _SEGMENT_PAGES for segment in range(after, before))
        for segment in range(after, before):
            self._cache.drop(self._segments.pop(segment))
            self._changed.discard(segment)
        for column in self._minima:
            del column[after:]

    def _add_segment(self, number: int, data: bytes | None) -> None:
        segment = self._segments[number] = _Segment(self._name(number), data)
        segment.dirty = data is None
        self._cache.add(segment)

    def _segment(self, page: int) -> _Segment:
        segment = self._segments.get(page // _SEGMENT_PAGES)
        if segment is None:
            self.load([page])
            segment = self._segments[page // _SEGMENT_PAGES]
        return segment

    def _summarize(self) -> None:
        for number in self._changed:
            columns = self._segments[number].columns
            for column in range(3):
                self._minima[column][number] = min(columns[column])
        self._changed.clear()

    def _name(self, segment: int) -> bytes:
        return self._prefix + segment.to_bytes(4, "big")

"""Buckets of an ordered bag: entries of one range of keys, in their stored form.

A value is cut out of the stored bytes on demand, and adding or removing one copies the bytes once.
Therefore the cost of a bucket that is read for one of its entries does not grow with the number of
the others, except for copies.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Generic, TypeVar

from sparkbeam.worker.state.packed_columns import (
    LENGTH,
    bytes_beyond_numbers,
    cut,
    keys_of,
    packed_keys,
    unpacked,
    unpacked_keys,
)

KEY_BYTES = 14
"""Approximate size of an entry besides its value, if its key is a number."""

_FEW = 4

K = TypeVar("K", int, bytes)


class Bucket(Generic[K]):
    """Entries in the order of their keys, at least one.

    Args:
        keys: of the entries, sorted.

    Attributes:
        keys: a column, not to be changed.
    """

    TAG = b"\1"
    """First byte of the stored form."""

    __slots__ = ("_lengths", "_packed", "_start", "keys")

    def __init__(self, keys: Sequence[K], values: Sequence[bytes]) -> None:
        self._set(keys, values)

    def _set(self, keys: Sequence[K], values: Sequence[bytes]) -> None:
        self.keys = keys_of(keys)
        self._lengths = array(LENGTH, map(len, values))
        self._put(values)

    def _put(self, values: Sequence[bytes | memoryview]) -> None:
        """Store values, in parts, behind the current keys and lengths."""
        self._packed = b"".join((self.TAG, *packed_keys(self.keys), self._lengths, *values))
        self._start = len(self._packed) - sum(map(len, values))

    def packed(self) -> bytes:
        """Return the bytes to store."""
        return self._packed

    @classmethod
    def unpacked(cls, data: bytes) -> "Bucket[Any]":
        """Return the inverse of :meth:`packed`."""
        bucket = cls.__new__(cls)
        bucket.keys, at = unpacked_keys(data, 1)
        bucket._lengths, bucket._start = unpacked(data, at, LENGTH, len(bucket.keys))
        bucket._packed = data
        return bucket

    def within(self, start: K, end: K | None) -> tuple[int, int]:
        """Return the entries within a range: from, until."""
        return bisect_left(self.keys, start), until_key(self.keys, end)

    def entry(self, at: int) -> tuple[K, bytes]:
        """Return an entry by its number."""
        start = self._place(at)
        return self.keys[at], self._packed[start : start + self._lengths[at]]

    def entries(self, low: int, high: int, *, reverse: bool = False) -> Iterator[tuple[K, bytes]]:
        """Yield some entries by their number, cut out on demand."""
        lengths, packed = self._lengths, self._packed
        if not reverse:
            found = cut(lengths[low:high], packed, self._place(low))
            yield from zip(self.keys[low:high], found, strict=True)
            return
        until = self._place(high)
        for at in range(high - 1, low - 1, -1):
            start = until - lengths[at]
            yield self.keys[at], packed[start:until]
            until = start

    def merge(self, keys: Sequence[K], values: Sequence[bytes]) -> int:
        """Add sorted entries, behind those of the same key; return their size in bytes."""
        if len(keys) == 1:
            self._insert(keys[0], values[0])
        elif self.keys[-1] <= keys[0]:
            before = self._part(self._start)
            self.keys.extend(keys)
            self._lengths.extend(map(len, values))
            self._put((before, *values))
        elif len(keys) <= _FEW:
            for key, value in zip(keys, values, strict=True):
                self._insert(key, value)
        else:
            both = chain(self.entries(0, len(self.keys)), zip(keys, values, strict=True))
            merged = sorted(both, key=itemgetter(0))
            self._set([key for key, _ in merged], [value for _, value in merged])
        return size_of(keys, values)

    def _insert(self, key: K, value: bytes) -> None:
        at = bisect_right(self.keys, key)
        start, place, stored = self._start, self._place(at), memoryview(self._packed)
        self.keys.insert(at, key)
        self._lengths.insert(at, len(value))
        self._put((stored[start:place], value, stored[place:]))

    def _place(self, at: int) -> int:
        """Return the start of the value of an entry in the stored bytes."""
        return self._start + sum(self._lengths[:at])

    def _part(self, start: int, until: int | None = None) -> memoryview:
        """Return some of the stored bytes, not copied."""
        return memoryview(self._packed)[start:until]

    def remove(self, low: int, high: int) -> int:
        """Remove some entries by their number; return their size in bytes."""
        place, until = self._place(low), self._place(high)
        before, behind = self._part(self._start, place), self._part(until)
        size = until - place + KEY_BYTES * (high - low) + bytes_beyond_numbers(self.keys[low:high])
        del self.keys[low:high], self._lengths[low:high]
        self._put((before, behind))
        return size

    def absorb(self, following: "Bucket[K]") -> None:
        """Add all entries of another bucket, whose keys are not less than the last key."""
        before = self._part(self._start)
        self.keys += following.keys
        self._lengths += following._lengths
        self._put((before, following._part(following._start)))

    def pieces(self, piece_bytes: float) -> list[tuple["Bucket[K]", int]]:
        """Return buckets of about this many bytes with the entries, and the bytes of each."""
        values = [value for _, value in self.entries(0, len(self.keys))]
        found = []
        low = size = 0
        for at, value in enumerate(values):
            size += size_of(self.keys[at : at + 1], [value])
            if size >= piece_bytes or at + 1 == len(values):
                found.append((Bucket(self.keys[low : at + 1], values[low : at + 1]), size))
                low, size = at + 1, 0
        return found

    def lists(self) -> tuple[list[K], list[bytes]]:
        """Return keys and values."""
        return list(self.keys), [value for _, value in self.entries(0, len(self.keys))]


def size_of(keys: Sequence[Any], values: Sequence[bytes]) -> int:
    """Return the approximate size of entries in bytes."""
    return sum(map(len, values)) + KEY_BYTES * len(values) + bytes_beyond_numbers(keys)


def until_key(sorted_keys: Sequence[Any], end: Any) -> int:
    """Return the number of keys before a key; all, if it is None."""
    return len(sorted_keys) if end is None else bisect_left(sorted_keys, end)

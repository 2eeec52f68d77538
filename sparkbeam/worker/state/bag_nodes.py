"""Nodes of an ordered bag: facts about neighbouring buckets, column by column."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from sparkbeam.worker.state.buckets import Bucket, until_key
from sparkbeam.worker.state.packed_columns import (
    bytes_beyond_numbers,
    keys_of,
    numbers,
    packed_keys,
    unpacked_keys,
)

_BUCKETS = 256
_BYTES = 64 << 10
_SPARSE = 32
_BUCKET_ENTRY_BYTES = 32

K = TypeVar("K", int, bytes)


class Node(Generic[K]):
    """Buckets in the order of their keys. A node with a bucket is never left without one.

    Args:
        columns: the first key, the last key, the number, the entries and the bytes of each bucket.

    Attributes:
        counts: the number of entries of each bucket.
        sizes: the estimated number of bytes of each bucket.
    """

    TAG = b"\2"
    """First byte of the stored form."""

    __slots__ = ("counts", "firsts", "lasts", "numbers", "sizes")

    def __init__(self, columns: Iterable[Any]) -> None:
        self.firsts, self.lasts, self.numbers, self.counts, self.sizes = columns

    @classmethod
    def of(cls, buckets: Sequence[tuple[Bucket[K], int, int]]) -> "Node[K]":
        """Create a node of buckets, each with its number and bytes."""
        keys = [bucket.keys for bucket, _, _ in buckets]
        return cls(
            (
                keys_of([column[0] for column in keys]),
                keys_of([column[-1] for column in keys]),
                numbers(number for _, number, _ in buckets),
                numbers(map(len, keys)),
                numbers(size for _, _, size in buckets),
            )
        )

    def packed(self) -> bytes:
        """Return the bytes to store."""
        parts: list[bytes | array[int]] = [self.TAG]
        for column in self._columns():
            parts += packed_keys(column)
        return b"".join(parts)

    @classmethod
    def unpacked(cls, data: bytes) -> "Node[Any]":
        """Return the inverse of :meth:`packed`."""
        columns, at = [], 1
        for _ in range(5):
            column, at = unpacked_keys(data, at)
            columns.append(column)
        return cls(columns)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        ends = bytes_beyond_numbers(self.firsts) + bytes_beyond_numbers(self.lasts)
        return _BUCKET_ENTRY_BYTES * len(self.numbers) + ends

    def place(self, key: K) -> int:
        """Return the bucket that takes a key."""
        return max(0, bisect_right(self.firsts, key) - 1)

    def touched(self, start: K, end: K | None) -> tuple[int, int]:
        """Return the buckets that may have entries within a range: from, until."""
        return bisect_left(self.lasts, start), until_key(self.firsts, end)

    def covered(self, start: K, end: K | None) -> tuple[int, int]:
        """Return the buckets with entries only within a range: from, until, if there are any."""
        return bisect_left(self.firsts, start), until_key(self.lasts, end)

    def note(self, at: int, bucket: Bucket[K], size: int) -> None:
        """Record that a bucket has changed."""
        keys = bucket.keys
        self.firsts[at], self.lasts[at] = keys[0], keys[-1]
        self.counts[at], self.sizes[at] = len(keys), size

    def replace(self, at: int, buckets: Sequence[tuple[Bucket[K], int, int]]) -> None:
        """Replace a bucket by others, each with its number and bytes."""
        for column, part in zip(self._columns(), Node.of(buckets)._columns(), strict=True):
            column[at : at + 1] = part

    def remove(self, low: int, high: int) -> None:
        """Forget some buckets."""
        for column in self._columns():
            del column[low:high]

    def absorb(self, following: "Node[K]") -> None:
        """Add the buckets of the next node."""
        for column, more in zip(self._columns(), following._columns(), strict=True):
            column += more

    def parts(self) -> "list[Node[K]]":
        """Return the parts to split into: the node itself, or several nodes if it is large."""
        buckets, size = len(self), self.size
        if buckets <= _BUCKETS and (size <= _BYTES or buckets < 2):
            return [self]
        most = min(_BUCKETS // 2, max(1, buckets * (_BYTES // 2) // size))
        return [
            Node(column[low : low + most] for column in self._columns())
            for low in range(0, buckets, most)
        ]

    def joins(self, following: "Node[K]") -> bool:
        """Return whether to merge with the next node, as one of them has few buckets."""
        counts = len(self), len(following)
        return (
            min(counts) <= _SPARSE
            and sum(counts) <= _BUCKETS // 2
            and self.size + following.size <= _BYTES // 2
        )

    def _columns(self) -> tuple[Any, ...]:
        return self.firsts, self.lasts, self.numbers, self.counts, self.sizes

"""Ordered bags of a record: bytes in key order, read and cleared by key ranges.

The keys of a bag are all whole numbers, such as timestamps in microseconds, or all bytes. A small
bag is a list within the record. A larger one is a tree of three levels: the record refers to the
nodes (``nodes.py``), a node to the buckets (``buckets.py``), and a bucket has entries of one range
of keys. Nodes and buckets are separate entries. They split when they grow, and merge when little is
left in them. The cost of a range is that of its content: its buckets, and their nodes.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from operator import itemgetter
from typing import Any, Generic, TypeVar

from sparkbeam.worker.state.bag_nodes import Node
from sparkbeam.worker.state.bags import SMALL_BYTES, CollectionOwner
from sparkbeam.worker.state.buckets import KEY_BYTES, Bucket, size_of, until_key
from sparkbeam.worker.state.entries import Entry, Overflow

BUCKET_BYTES = 32 << 10
"""Size above which a bucket is split, unless the bag has another limit."""

ORDERED = 1
"""First element of the state of an ordered bag."""

# Parts of that: what a bucket is split into, and when it is joined with another one.
_PIECE, _SPARSE = 5 / 8, 5 / 32
_READ_AHEAD = 16
_NODES_AHEAD = 64
_NODE_BYTES = 8 << 10  # Of a full one, with numbers as keys.

# The state: what it is, keys and values within the record, their bytes, nodes, entries.
_KEYS, _VALUES, _BYTES, _NODES, _COUNT = range(1, 6)
# A node, as the record knows it: first and last key, number of its entry.
_FIRST, _LAST, _NUMBER = range(3)

_first = itemgetter(_FIRST)
_last = itemgetter(_LAST)

K = TypeVar("K", int, bytes)


class OrderedBag(Generic[K]):
    """Bytes in the order of their keys; those of one key in the order of insertion.

    It must not change while a range of it is read. A range goes from one key up to, but without,
    another; if that is None, up to the end.

    Args:
        bucket_bytes: over this size a bucket is split; None for :data:`BUCKET_BYTES`. Small ones
            are for few entries here and there, large ones for ranges.
    """

    __slots__ = ("_cell", "_owner", "_piece_bytes", "_sparse_bytes", "_split_bytes")

    def __init__(
        self, owner: CollectionOwner, cell: bytes, bucket_bytes: int | None = None
    ) -> None:
        self._owner = owner
        self._cell = cell
        self._split_bytes = bucket_bytes or BUCKET_BYTES
        self._piece_bytes = self._split_bytes * _PIECE
        self._sparse_bytes = self._split_bytes * _SPARSE

    def __len__(self) -> int:
        state = self._owner.collection(self._cell)
        return state[_COUNT] if state else 0

    def add(self, entries: Iterable[tuple[K, bytes]]) -> None:
        """Add entries: key, value."""
        added = sorted(entries, key=_first)
        if not added:
            return
        state = self._owner.collection(self._cell)
        if state is None:
            state = [ORDERED, [], [], 0, [], 0]
        keys, values = [key for key, _ in added], [value for _, value in added]
        before = state[_BYTES]
        state[_COUNT] += len(values)
        if state[_NODES]:
            self._insert(state, keys, values)
        else:
            size = size_of(keys, values)
            _merge(state[_KEYS], state[_VALUES], keys, values)
            state[_BYTES] += size
            if state[_BYTES] > SMALL_BYTES:
                keys, values = state[_KEYS], state[_VALUES]
                state[_KEYS], state[_VALUES], state[_BYTES] = [], [], 0
                self._insert(state, keys, values)
        self._owner.set_collection(self._cell, state, state[_BYTES] - before)

    def prefetch(self, keys: Iterable[K]) -> None:
        """Read the buckets that may contain some keys at once, as far as memory has room."""
        overflow = self._owner.overflow
        overflow.cache.trim()
        for numbers in self._ahead([(key, key) for key in keys], overflow.cache.room // 2):
            overflow.load(numbers)

    def read_later(self, ranges: Sequence[tuple[K, K | None]]) -> None:
        """Announce a read of ranges, see :meth:`.Overflow.announce`."""
        self._owner.overflow.announce(partial(self._ahead, ranges))

    def _ahead(self, ranges: Sequence[tuple[K, K | None]], room: int) -> Iterator[Collection[int]]:
        """List nodes, then buckets: of ranges, and where their first keys would be."""
        state = self._owner.collection(self._cell)
        if not state or not state[_NODES]:
            return
        nodes = state[_NODES]
        by_node: dict[int, list[tuple[K, K | None]]] = {}
        for start, end in ranges:
            low = _place(nodes, start)
            high = low if start == end else _between(nodes, start, end)[1]
            for place in range(low, max(low + 1, min(high, low + _NODES_AHEAD))):
                by_node.setdefault(place, []).append((start, end))
        places = list(by_node)[: min(_NODES_AHEAD, 1 + room // _NODE_BYTES)]
        numbers = [nodes[place][_NUMBER] for place in places]
        yield numbers
        loaded = (entry.content for entry in self._owner.overflow.load(numbers))
        sizes = {
            node.numbers[bucket]: node.sizes[bucket]
            for place, node in zip(places, loaded, strict=True)
            for start, end in by_node[place]
            for bucket in _reached(node, start, end)
        }
        yield list(sizes)[: bisect_right(list(accumulate(sizes.values())), room)]

    def last_before(self, end: K) -> tuple[K, bytes] | None:
        """Return the last entry whose key is less than another key."""
        state = self._owner.collection(self._cell)
        if not state:
            return None
        if not state[_NODES]:
            at = bisect_left(state[_KEYS], end) - 1
            return (state[_KEYS][at], state[_VALUES][at]) if at >= 0 else None
        at = bisect_left(state[_NODES], end, key=_first) - 1
        if at < 0:
            return None
        overflow = self._owner.overflow
        node = overflow.entry(state[_NODES][at][_NUMBER]).content
        place = bisect_left(node.firsts, end) - 1
        bucket = overflow.entry(node.numbers[place]).content
        overflow.cache.trim()
        return bucket.entry(bisect_left(bucket.keys, end) - 1)

    def lasts_before(self, ends: Sequence[K]) -> Iterator[tuple[K, bytes] | None]:
        """Yield the last entry before each key; buckets are read at once, if memory has room.

        Additions at a key after that of the entry, and before the other one, go into the
        bucket of the entry.
        """
        state = self._owner.collection(self._cell)
        if not state:
            yield from [None] * len(ends)
            return
        nodes = state[_NODES]
        if not nodes:
            yield from map(self.last_before, ends)
            return
        overflow = self._owner.overflow
        overflow.cache.trim()
        places = self._places_before(nodes, ends)
        sizes = dict(place for place in places if place is not None)
        reach = bisect_right(list(accumulate(sizes.values())), overflow.cache.room // 2)
        wanted = list(sizes)[:reach]
        loaded = dict(zip(wanted, overflow.load(wanted), strict=True))
        for place, end in zip(places, ends, strict=True):
            if place is None:
                yield None
                continue
            number, _ = place
            entry = loaded.get(number)
            if entry is None:
                overflow.cache.trim()
                entry = overflow.entry(number)
            bucket = entry.content
            yield bucket.entry(bisect_left(bucket.keys, end) - 1)
        overflow.cache.trim()

    def _places_before(self, nodes: list[Any], ends: Sequence[K]) -> list[tuple[int, int] | None]:
        """Return number and bytes of the bucket with the last entry before each key, if any."""
        overflow = self._owner.overflow
        firsts = [node[_FIRST] for node in nodes]
        places = [bisect_left(firsts, end) - 1 for end in ends]
        touched = [nodes[place][_NUMBER] for place in dict.fromkeys(places) if place >= 0]
        overflow.load(touched[:_NODES_AHEAD])
        found: list[tuple[int, int] | None] = []
        known = -1
        for place, end in zip(places, ends, strict=True):
            if place < 0:
                found.append(None)
                continue
            if place != known:
                node, known = overflow.entry(nodes[place][_NUMBER]).content, place
            bucket = bisect_left(node.firsts, end) - 1
            found.append((node.numbers[bucket], node.sizes[bucket]))
        return found

    def range(self, start: K, end: K | None, *, reverse: bool = False) -> Iterator[tuple[K, bytes]]:
        """Yield the entries of a range, read on demand; in reverse from its end on."""
        state = self._owner.collection(self._cell)
        if not state:
            return
        if state[_KEYS]:
            yield from _part(state[_KEYS], state[_VALUES], start, end, reverse=reverse)
        overflow, ahead = self._owner.overflow, 1
        low, high = _between(state[_NODES], start, end)
        for at in range(high - 1, low - 1, -1) if reverse else range(low, high):
            node = overflow.entry(state[_NODES][at][_NUMBER]).content
            first, until = node.touched(start, end)
            numbers = node.numbers[first:until]
            if reverse:
                numbers.reverse()
            place = 0
            while place < len(numbers):
                group = overflow.load(numbers[place : place + ahead])
                buckets = [entry.content for entry in group]
                overflow.cache.trim()
                for bucket in buckets:
                    yield from bucket.entries(*bucket.within(start, end), reverse=reverse)
                place += ahead
                # Whoever wants one entry is not to pay for many.
                ahead = min(2 * ahead, _READ_AHEAD)

    def clear(self, start: K, end: K | None) -> None:
        """Remove the entries of a range."""
        state = self._owner.collection(self._cell)
        if not state:
            return
        before, bytes_before = state[_COUNT], state[_BYTES]
        keys, values = state[_KEYS], state[_VALUES]
        low, high = bisect_left(keys, start), until_key(keys, end)
        if low < high:
            state[_BYTES] -= size_of(keys[low:high], values[low:high])
            state[_COUNT] -= high - low
            del keys[low:high], values[low:high]
        nodes = state[_NODES]
        low, high = _between(nodes, start, end)
        for at in range(low, high):
            state[_COUNT] -= self._clear_node(nodes, at, start, end)
        if state[_COUNT] == before:
            return
        nodes[low:high] = [node for node in nodes[low:high] if node[_NUMBER] is not None]
        for at in (low, low - 1):
            self._join_nodes(nodes, at)
        if len(nodes) == 1 and state[_COUNT] * KEY_BYTES < SMALL_BYTES:
            self._shrink(state)
        growth = state[_BYTES] - bytes_before
        self._owner.set_collection(self._cell, state if state[_COUNT] else None, growth)

    def _insert(self, state: list[Any], keys: list[K], values: list[bytes]) -> None:
        """Add sorted entries to the tree, node by node."""
        overflow = self._owner.overflow
        nodes = state[_NODES]
        if not nodes:
            node = Node.of(self._create_entries(Bucket(keys, values)))
            nodes.append([keys[0], keys[-1], overflow.create(node, node.size)])
            self._note_node(nodes, 0, overflow.entry(nodes[0][_NUMBER]), node.size)
            return
        position = 0
        while position < len(keys):
            overflow.cache.trim()
            at = _place(nodes, keys[position])
            until = len(keys)
            if at + 1 < len(nodes):
                until = bisect_left(keys, nodes[at + 1][_FIRST], position)
            entry = overflow.entry(nodes[at][_NUMBER])
            node = entry.content
            before = node.size
            while position < until:
                bucket = node.place(keys[position])
                end = until
                if bucket + 1 < len(node):
                    end = bisect_left(keys, node.firsts[bucket + 1], position, until)
                self._fill(overflow, node, bucket, keys[position:end], values[position:end])
                position = end
                if overflow.cache.full:
                    break
            self._note_node(nodes, at, entry, before)

    def _fill(
        self, overflow: Overflow, node: Node[K], at: int, keys: list[K], values: list[bytes]
    ) -> None:
        """Add entries to a bucket of a node, which may split into several."""
        number, before = node.numbers[at], node.sizes[at]
        entry = overflow.entry(number)
        bucket = entry.content
        size = before + bucket.merge(keys, values)
        if size <= self._split_bytes:
            overflow.resize(entry, before, size)
            node.note(at, bucket, size)
            return
        overflow.delete([number], before)
        node.replace(at, self._create_entries(bucket))

    def _create_entries(self, bucket: Bucket[K]) -> list[tuple[Bucket[K], int, int]]:
        """Create entries of the pieces of a bucket."""
        create = self._owner.overflow.create
        pieces = bucket.pieces(self._piece_bytes)
        return [(piece, create(piece, size), size) for piece, size in pieces]

    def _note_node(self, nodes: list[Any], at: int, entry: Entry, before: int) -> None:
        """Update the record of a changed node; split a large one."""
        overflow = self._owner.overflow
        parts = entry.content.parts()
        entry.content = parts[0]
        overflow.resize(entry, before, parts[0].size)
        numbers = [nodes[at][_NUMBER]]
        numbers += [overflow.create(part, part.size) for part in parts[1:]]
        nodes[at : at + 1] = [
            [part.firsts[0], part.lasts[-1], number]
            for part, number in zip(parts, numbers, strict=True)
        ]

    def _clear_node(self, nodes: list[Any], at: int, start: K, end: K | None) -> int:
        """Remove the entries of a node within a range; return their number.

        An empty node has no number then.
        """
        overflow = self._owner.overflow
        entry = overflow.entry(nodes[at][_NUMBER])
        node = entry.content
        before = node.size
        removed = 0
        low, high = node.touched(start, end)
        for bucket in {low, high - 1} if low < high else ():
            if node.firsts[bucket] < start or (end is not None and not node.lasts[bucket] < end):
                removed += self._clear_bucket(node, bucket, start, end)
        low, high = node.covered(start, end)
        if low < high:
            removed += sum(node.counts[low:high])
            overflow.delete(node.numbers[low:high], sum(node.sizes[low:high]))
            node.remove(low, high)
        if not removed:
            return 0
        for bucket in (low, low - 1, low - 2):
            self._join_buckets(node, bucket)
        if len(node):
            self._note_node(nodes, at, entry, before)
        else:
            overflow.delete([nodes[at][_NUMBER]], before)
            nodes[at][_NUMBER] = None
        return removed

    def _clear_bucket(self, node: Node[K], at: int, start: K, end: K | None) -> int:
        """Remove the entries of a bucket within a range that does not cover it."""
        overflow = self._owner.overflow
        entry = overflow.entry(node.numbers[at])
        bucket = entry.content
        low, high = bucket.within(start, end)
        if low >= high:
            return 0
        before = node.sizes[at]
        size = before - bucket.remove(low, high)
        overflow.resize(entry, before, size)
        node.note(at, bucket, size)
        return high - low

    def _join_buckets(self, node: Node[K], at: int) -> None:
        """Merge a bucket with the next one if one of them has little."""
        sizes: Sequence[int] = node.sizes[at : at + 2] if at >= 0 else ()
        if len(sizes) < 2 or min(sizes) > self._sparse_bytes or sum(sizes) > self._piece_bytes:
            return
        overflow = self._owner.overflow
        entry, gone = overflow.load(node.numbers[at : at + 2])
        bucket = entry.content
        bucket.absorb(gone.content)
        overflow.resize(entry, sizes[0], sum(sizes))
        overflow.delete(node.numbers[at + 1 : at + 2], sizes[1])
        node.remove(at + 1, at + 2)
        node.note(at, bucket, sum(sizes))

    def _join_nodes(self, nodes: list[Any], at: int) -> None:
        """Merge a node with the next one if one of them has few buckets."""
        if not 0 <= at < len(nodes) - 1:
            return
        overflow = self._owner.overflow
        entry, gone = overflow.load(node[_NUMBER] for node in nodes[at : at + 2])
        node, following = entry.content, gone.content
        if not node.joins(following):
            return
        before = node.size
        overflow.delete([nodes.pop(at + 1)[_NUMBER]], following.size)
        node.absorb(following)
        self._note_node(nodes, at, entry, before)

    def _shrink(self, state: list[Any]) -> None:
        """Move the rest into the record, if it is one small bucket."""
        overflow = self._owner.overflow
        number = state[_NODES][0][_NUMBER]
        node = overflow.entry(number).content
        if len(node) > 1 or node.sizes[0] > SMALL_BYTES // 2:
            return
        state[_KEYS], state[_VALUES] = overflow.entry(node.numbers[0]).content.lists()
        state[_BYTES] = node.sizes[0]
        state[_NODES] = []
        overflow.delete(node.numbers, node.sizes[0])
        overflow.delete([number], node.size)


def drop_ordered(state: list[Any], overflow: Overflow) -> None:
    """Remove the buckets and nodes of an ordered bag."""
    for known in state[_NODES]:
        number = known[_NUMBER]
        node = overflow.entry(number).content
        overflow.delete(node.numbers, sum(node.sizes))
        overflow.delete([number], node.size)
        overflow.cache.trim()


def _place(nodes: list[Any], key: Any) -> int:
    """Return the node that takes a key."""
    return max(0, bisect_right(nodes, key, key=_first) - 1)


def _reached(node: Node[Any], start: Any, end: Any) -> range:
    """Return the buckets of a node for a range, at least the one that its first key would be in."""
    low = node.place(start)
    high = low if start == end else node.touched(start, end)[1]
    return range(low, max(low + 1, high))


def _between(nodes: list[Any], start: Any, end: Any) -> tuple[int, int]:
    """Return the nodes that may have entries within a range: from, until."""
    high = len(nodes) if end is None else bisect_left(nodes, end, key=_first)
    return bisect_left(nodes, start, key=_last), high


def _part(
    keys: list[Any], values: list[bytes], start: Any, end: Any, *, reverse: bool
) -> Iterable[tuple[Any, bytes]]:
    """Return the entries within a range."""
    low, high = bisect_left(keys, start), until_key(keys, end)
    found = list(zip(keys[low:high], values[low:high], strict=True))
    return reversed(found) if reverse else found


def _merge(keys: list[Any], values: list[bytes], more: list[Any], more_values: list[bytes]) -> None:
    """Add sorted entries to sorted entries, behind those of the same key."""
    if not keys or keys[-1] <= more[0]:
        keys += more
        values += more_values
    elif len(more) <= 4:
        for key, value in zip(more, more_values, strict=True):
            at = bisect_right(keys, key)
            keys.insert(at, key)
            values.insert(at, value)
    else:
        merged = [*zip(keys, values, strict=True), *zip(more, more_values, strict=True)]
        merged.sort(key=_first)
        keys[:] = [key for key, _ in merged]
        values[:] = [value for _, value in merged]

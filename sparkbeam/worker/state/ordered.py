"""Ordered bags of a record: bytes in the order of keys, read and cleared by ranges of these.

The keys of a bag are all whole numbers, such as timestamps in microseconds, or all bytes. A small
bag is a list within the record. A larger one is a tree of three levels: the record knows the
nodes, a node the buckets, and a bucket has entries of one range of keys. Nodes and buckets are
entries of their own; they are split when they grow, and joined when little is left in them. A
range costs what lies in it: its buckets, and their nodes.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Generic, TypeVar

from sparkbeam.worker.state.bags import ITEM_BYTES, SMALL_BYTES, CollectionOwner
from sparkbeam.worker.state.entries import Entry, Overflow

BUCKET_BYTES = 32 << 10
"""A bucket over this size is split, unless the bag is told another one."""

ORDERED = 1
"""First element of the state of an ordered bag."""

# Parts of that: what a bucket is split into, and when it is joined with another one.
_PIECE, _SPARSE = 5 / 8, 5 / 32
_NODE_BUCKETS = 256
_NODE_BYTES = 64 << 10
_SPARSE_BUCKETS = 32
_KEY_BYTES = 9 + ITEM_BYTES
_BUCKET_ENTRY_BYTES = 32
_READ_AHEAD = 16

# The state: what it is, keys and values within the record, their bytes, nodes, entries.
_KEYS, _VALUES, _BYTES, _NODES, _COUNT = range(1, 6)
# A node, as the record knows it: first and last key, number of its entry.
_FIRST, _LAST, _NUMBER = range(3)
# The content of a node: lists with an element for each bucket.
_FIRSTS, _LASTS, _NUMBERS, _COUNTS, _SIZES = range(5)

_first = itemgetter(_FIRST)
_last = itemgetter(_LAST)

K = TypeVar("K", int, bytes)


class OrderedBag(Generic[K]):
    """Bytes in the order of their keys; those of one key as they were added.

    It must not change while a range of it is read. A range goes from one key up to, but without,
    another; where that is None, up to the end.

    Args:
        owner: the record.
        cell: where it is in the record.
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
        """Adds entries: key, value."""
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
            size = _size(keys, values)
            _merge(state[_KEYS], state[_VALUES], keys, values)
            state[_BYTES] += size
            if state[_BYTES] > SMALL_BYTES:
                keys, values = state[_KEYS], state[_VALUES]
                state[_KEYS], state[_VALUES], state[_BYTES] = [], [], 0
                self._insert(state, keys, values)
        self._owner.set_collection(self._cell, state, state[_BYTES] - before)

    def range(self, start: K, end: K | None, *, reverse: bool = False) -> Iterator[tuple[K, bytes]]:
        """The entries of a range, read as they are asked for; in reverse from its end on."""
        state = self._owner.collection(self._cell)
        if not state:
            return
        turned: Callable[[Sequence[Any]], Iterable[Any]] = reversed if reverse else iter
        yield from turned(_part(state[_KEYS], state[_VALUES], start, end))
        overflow, ahead = self._owner.overflow, 1
        for node in turned(state[_NODES][slice(*_between(state[_NODES], start, end))]):
            content = overflow.load([node[_NUMBER]])[0].content
            low, high = bisect_left(content[_LASTS], start), _until(content[_FIRSTS], end)
            numbers = list(turned(content[_NUMBERS][low:high]))
            place = 0
            while place < len(numbers):
                group = overflow.load(numbers[place : place + ahead])
                buckets = [entry.content for entry in group]
                overflow.cache.trim()
                for keys, values in buckets:
                    yield from turned(_part(keys, values, start, end))
                place += ahead
                # Whoever wants one entry is not to pay for many.
                ahead = min(2 * ahead, _READ_AHEAD)

    def clear(self, start: K, end: K | None) -> None:
        """Removes the entries of a range."""
        state = self._owner.collection(self._cell)
        if not state:
            return
        before, bytes_before = state[_COUNT], state[_BYTES]
        keys, values = state[_KEYS], state[_VALUES]
        low, high = bisect_left(keys, start), _until(keys, end)
        if low < high:
            state[_BYTES] -= _size(keys[low:high], values[low:high])
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
        if len(nodes) == 1 and state[_COUNT] * _KEY_BYTES < SMALL_BYTES:
            self._shrink(state)
        growth = state[_BYTES] - bytes_before
        self._owner.set_collection(self._cell, state if state[_COUNT] else None, growth)

    def _insert(self, state: list[Any], keys: list[K], values: list[bytes]) -> None:
        """Adds sorted entries to the tree, bucket by bucket."""
        overflow = self._owner.overflow
        nodes = state[_NODES]
        if not nodes:
            number = overflow.create([[], [], [], [], []], 0)
            nodes.append([keys[0], keys[0], number])
        position = 0
        while position < len(keys):
            overflow.cache.trim()
            key = keys[position]
            at = max(0, bisect_right(nodes, key, key=_first) - 1)
            node = nodes[at]
            entry = overflow.load([node[_NUMBER]])[0]
            before = _node_size(entry.content)
            firsts = entry.content[_FIRSTS]
            bucket = max(0, bisect_right(firsts, key) - 1)
            until = len(keys)
            if bucket + 1 < len(firsts):
                until = bisect_left(keys, firsts[bucket + 1], position)
            elif at + 1 < len(nodes):
                until = bisect_left(keys, nodes[at + 1][_FIRST], position)
            self._fill(entry, bucket, keys[position:until], values[position:until])
            self._note_node(nodes, at, entry, before)
            position = until

    def _fill(self, node: Entry, bucket: int, keys: list[K], values: list[bytes]) -> None:
        """Adds entries to a bucket of a node, which may become several."""
        overflow = self._owner.overflow
        content = node.content
        if content[_NUMBERS]:
            before = content[_SIZES][bucket]
            entry = overflow.load([content[_NUMBERS][bucket]])[0]
            size = before + _size(keys, values)
            all_keys, all_values = entry.content
            _merge(all_keys, all_values, keys, values)
            keys, values = all_keys, all_values
            if size <= self._split_bytes:
                overflow.resize(entry, before, size)
                _set_buckets(content, bucket, [_bucket(keys, content[_NUMBERS][bucket], size)])
                return
            overflow.delete([content[_NUMBERS][bucket]], before)
        buckets = []
        for low, high, size in _pieces(keys, values, self._piece_bytes):
            part = keys[low:high]
            buckets.append(_bucket(part, overflow.create([part, values[low:high]], size), size))
        _set_buckets(content, bucket, buckets)

    def _note_node(self, nodes: list[Any], at: int, entry: Entry, before: int) -> None:
        """Brings the record's knowledge of a changed node up to date; splits a large one.

        Args:
            nodes: of the record.
            at: which of them has changed.
            entry: that node's.
            before: how large it was.
        """
        overflow = self._owner.overflow
        parts = _node_parts(entry.content)
        entry.content = parts[0]
        overflow.resize(entry, before, _node_size(parts[0]))
        numbers = [nodes[at][_NUMBER]]
        numbers += [overflow.create(part, _node_size(part)) for part in parts[1:]]
        nodes[at : at + 1] = [
            [part[_FIRSTS][0], part[_LASTS][-1], number]
            for part, number in zip(parts, numbers, strict=True)
        ]

    def _clear_node(self, nodes: list[Any], at: int, start: K, end: K | None) -> int:
        """Removes what a node has within a range; says how many entries that were.

        A node of which nothing is left has no number then.
        """
        overflow = self._owner.overflow
        entry = overflow.load([nodes[at][_NUMBER]])[0]
        content = entry.content
        before = _node_size(content)
        removed = 0
        low, high = bisect_left(content[_LASTS], start), _until(content[_FIRSTS], end)
        for bucket in {low, high - 1} if low < high else ():
            if content[_FIRSTS][bucket] < start or not _ends_before(content[_LASTS][bucket], end):
                removed += self._clear_bucket(content, bucket, start, end)
        low, high = bisect_left(content[_FIRSTS], start), _until(content[_LASTS], end)
        if low < high:
            removed += sum(content[_COUNTS][low:high])
            overflow.delete(content[_NUMBERS][low:high], sum(content[_SIZES][low:high]))
            for column in content:
                del column[low:high]
        if not removed:
            return 0
        for bucket in (low, low - 1, low - 2):
            self._join_buckets(content, bucket)
        if content[_FIRSTS]:
            self._note_node(nodes, at, entry, before)
        else:
            overflow.delete([nodes[at][_NUMBER]], before)
            nodes[at][_NUMBER] = None
        return removed

    def _clear_bucket(self, content: list[list[Any]], at: int, start: K, end: K | None) -> int:
        """Removes what a bucket has within a range that does not cover it."""
        overflow = self._owner.overflow
        entry = overflow.load([content[_NUMBERS][at]])[0]
        keys, values = entry.content
        low, high = bisect_left(keys, start), _until(keys, end)
        if low == high:
            return 0
        before = content[_SIZES][at]
        size = before - _size(keys[low:high], values[low:high])
        del keys[low:high], values[low:high]
        overflow.resize(entry, before, size)
        _set_buckets(content, at, [_bucket(keys, content[_NUMBERS][at], size)])
        return high - low

    def _join_buckets(self, content: list[list[Any]], at: int) -> None:
        """Joins a bucket with the next one, if there is little in one of them."""
        sizes = content[_SIZES][at : at + 2] if at >= 0 else ()
        if len(sizes) < 2 or min(sizes) > self._sparse_bytes or sum(sizes) > self._piece_bytes:
            return
        overflow = self._owner.overflow
        entry, gone = overflow.load(content[_NUMBERS][at : at + 2])
        for part, more in zip(entry.content, gone.content, strict=True):
            part += more
        overflow.resize(entry, sizes[0], sum(sizes))
        overflow.delete(content[_NUMBERS][at + 1 : at + 2], sizes[1])
        for column in content:
            del column[at + 1]
        _set_buckets(content, at, [_bucket(entry.content[0], content[_NUMBERS][at], sum(sizes))])

    def _join_nodes(self, nodes: list[Any], at: int) -> None:
        """Joins a node with the next one, if there are few buckets in one of them."""
        if not 0 <= at < len(nodes) - 1:
            return
        overflow = self._owner.overflow
        entry, gone = overflow.load(node[_NUMBER] for node in nodes[at : at + 2])
        counts = [len(one.content[_FIRSTS]) for one in (entry, gone)]
        if min(counts) > _SPARSE_BUCKETS or sum(counts) > _NODE_BUCKETS // 2:
            return
        before = [_node_size(one.content) for one in (entry, gone)]
        if sum(before) > _NODE_BYTES // 2:
            return
        overflow.delete([nodes.pop(at + 1)[_NUMBER]], before[1])
        for column, more in zip(entry.content, gone.content, strict=True):
            column += more
        self._note_node(nodes, at, entry, before[0])

    def _shrink(self, state: list[Any]) -> None:
        """Takes what is left into the record, if that is one small bucket."""
        overflow = self._owner.overflow
        node = state[_NODES][0][_NUMBER]
        content = overflow.load([node])[0].content
        if len(content[_NUMBERS]) > 1 or content[_SIZES][0] > SMALL_BYTES // 2:
            return
        state[_KEYS], state[_VALUES] = overflow.load(content[_NUMBERS])[0].content
        state[_BYTES] = content[_SIZES][0]
        state[_NODES] = []
        overflow.delete(content[_NUMBERS], content[_SIZES][0])
        overflow.delete([node], _node_size(content))


def drop_ordered(state: list[Any], overflow: Overflow) -> None:
    """Removes the buckets and nodes of an ordered bag."""
    for node in state[_NODES]:
        entry = overflow.load([node[_NUMBER]])[0]
        overflow.delete(entry.content[_NUMBERS], sum(entry.content[_SIZES]))
        overflow.delete([node[_NUMBER]], _node_size(entry.content))
        overflow.cache.trim()


def _until(sorted_keys: list[Any], end: Any) -> int:
    """How many keys stand before one; all, if that is None."""
    return len(sorted_keys) if end is None else bisect_left(sorted_keys, end)


def _ends_before(key: Any, end: Any) -> bool:
    return end is None or key < end


def _between(nodes: list[Any], start: Any, end: Any) -> tuple[int, int]:
    """The nodes that may have entries within a range: from, until."""
    high = len(nodes) if end is None else bisect_left(nodes, end, key=_first)
    return bisect_left(nodes, start, key=_last), high


def _part(keys: list[Any], values: list[bytes], start: Any, end: Any) -> list[tuple[Any, bytes]]:
    """The entries within a range."""
    low, high = bisect_left(keys, start), _until(keys, end)
    return list(zip(keys[low:high], values[low:high], strict=True))


def _size(keys: list[Any], values: list[bytes]) -> int:
    return sum(map(len, values)) + _KEY_BYTES * len(values) + _size_of_keys(keys)


def _size_of_keys(keys: list[Any]) -> int:
    """What keys take beyond that of a number."""
    return sum(map(len, keys)) if keys and type(keys[0]) is bytes else 0


def _node_size(content: list[list[Any]]) -> int:
    ends = _size_of_keys(content[_FIRSTS]) + _size_of_keys(content[_LASTS])
    return _BUCKET_ENTRY_BYTES * len(content[_FIRSTS]) + ends


def _node_parts(content: list[list[Any]]) -> list[list[list[Any]]]:
    """What becomes of a node: itself, or several where it is large."""
    buckets, size = len(content[_FIRSTS]), _node_size(content)
    if buckets <= _NODE_BUCKETS and (size <= _NODE_BYTES or buckets < 2):
        return [content]
    most = min(_NODE_BUCKETS // 2, max(1, buckets * (_NODE_BYTES // 2) // size))
    return [[column[low : low + most] for column in content] for low in range(0, buckets, most)]


def _merge(keys: list[Any], values: list[bytes], more: list[Any], more_values: list[bytes]) -> None:
    """Adds sorted entries to sorted entries, behind those of the same key."""
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


def _pieces(
    keys: list[Any], values: list[bytes], piece_bytes: float
) -> Iterator[tuple[int, int, int]]:
    """Parts of a list of about so many bytes: from, until, bytes."""
    low = size = 0
    for at, value in enumerate(values):
        size += len(value) + _KEY_BYTES + _size_of_keys(keys[at : at + 1])
        if size >= piece_bytes:
            yield low, at + 1, size
            low, size = at + 1, 0
    if size:
        yield low, len(values), size


def _bucket(keys: list[Any], number: int, size: int) -> tuple[Any, Any, int, int, int]:
    """A bucket as its node knows it."""
    return keys[0], keys[-1], number, len(keys), size


def _set_buckets(
    content: list[list[Any]], at: int, buckets: list[tuple[Any, Any, int, int, int]]
) -> None:
    """Puts buckets in the place of one."""
    for column, part in zip(content, zip(*buckets, strict=True), strict=True):
        column[at : at + 1] = part

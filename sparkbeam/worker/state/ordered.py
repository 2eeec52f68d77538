"""Ordered bags of a record: bytes with timestamps, read and cleared by ranges of time.

A small one is a list within the record. A larger one is a tree of three levels: the record
knows the nodes, a node the buckets, and a bucket has entries of one span of time. Nodes and
buckets are entries of their own. A range costs what lies in it: its buckets, and their nodes.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

from sparkbeam.worker.state.bags import ITEM_BYTES, SMALL_BYTES, CollectionOwner
from sparkbeam.worker.state.entries import Entry, Overflow

BUCKET_BYTES = 32 << 10
"""A bucket over this size is split."""

ORDERED = 1
"""First element of the state of an ordered bag."""

_PIECE_BYTES = 20 << 10
_NODE_BUCKETS = 256
_STAMP_BYTES = 9 + ITEM_BYTES
_BUCKET_ENTRY_BYTES = 32
_READ_AHEAD = 16

# The state: what it is, timestamps and values within the record, their bytes, nodes, entries.
_STAMPS, _VALUES, _BYTES, _NODES, _COUNT = range(1, 6)
# A node, as the record knows it: first and last timestamp, number of its entry.
_FIRST, _LAST, _NUMBER = range(3)
# The content of a node: lists with an element for each bucket.
_FIRSTS, _LASTS, _NUMBERS, _COUNTS, _SIZES = range(5)

_first = itemgetter(_FIRST)
_last = itemgetter(_LAST)


class OrderedBag:
    """Bytes in the order of their timestamps; those of one timestamp as they were added.

    It must not change while a range of it is read.
    """

    __slots__ = ("_cell", "_owner")

    def __init__(self, owner: CollectionOwner, cell: bytes) -> None:
        self._owner = owner
        self._cell = cell

    def __len__(self) -> int:
        state = self._owner.collection(self._cell)
        return state[_COUNT] if state else 0

    def add(self, entries: Iterable[tuple[int, bytes]]) -> None:
        """Adds entries: timestamp in microseconds, value."""
        added = sorted(entries, key=_first)
        if not added:
            return
        state = self._owner.collection(self._cell)
        if state is None:
            state = [ORDERED, [], [], 0, [], 0]
        stamps, values = [stamp for stamp, _ in added], [value for _, value in added]
        growth = _size(values)
        state[_COUNT] += len(values)
        if state[_NODES]:
            self._insert(state, stamps, values)
        else:
            _merge(state[_STAMPS], state[_VALUES], stamps, values)
            state[_BYTES] += growth
            if state[_BYTES] > SMALL_BYTES:
                stamps, values = state[_STAMPS], state[_VALUES]
                state[_STAMPS], state[_VALUES], state[_BYTES] = [], [], 0
                self._insert(state, stamps, values)
        self._owner.set_collection(self._cell, state, growth)

    def range(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """The entries from one timestamp up to, but without, another."""
        state = self._owner.collection(self._cell)
        if not state:
            return
        stamps = state[_STAMPS]
        low, high = bisect_left(stamps, start), bisect_left(stamps, end)
        yield from zip(stamps[low:high], state[_VALUES][low:high], strict=True)
        overflow = self._owner.overflow
        for node in state[_NODES][slice(*_between(state[_NODES], start, end))]:
            content = overflow.load([node[_NUMBER]])[0].content
            low, high = bisect_left(content[_LASTS], start), bisect_left(content[_FIRSTS], end)
            numbers = content[_NUMBERS][low:high]
            for place in range(0, len(numbers), _READ_AHEAD):
                group = overflow.load(numbers[place : place + _READ_AHEAD])
                buckets = [entry.content for entry in group]
                overflow.cache.trim()
                for stamps, values in buckets:
                    low, high = bisect_left(stamps, start), bisect_left(stamps, end)
                    yield from zip(stamps[low:high], values[low:high], strict=True)

    def clear(self, start: int, end: int) -> None:
        """Removes the entries from one timestamp up to, but without, another."""
        state = self._owner.collection(self._cell)
        if not state:
            return
        stamps, values = state[_STAMPS], state[_VALUES]
        low, high = bisect_left(stamps, start), bisect_left(stamps, end)
        if low < high:
            state[_BYTES] -= _size(values[low:high])
            state[_COUNT] -= high - low
            del stamps[low:high], values[low:high]
        nodes = state[_NODES]
        low, high = _between(nodes, start, end)
        for at in range(low, high):
            state[_COUNT] -= self._clear_node(nodes, at, start, end)
        nodes[low:high] = [node for node in nodes[low:high] if node[_NUMBER] is not None]
        if len(nodes) == 1 and state[_COUNT] * _STAMP_BYTES < SMALL_BYTES:
            self._shrink(state)
        self._owner.set_collection(self._cell, state if state[_COUNT] else None, 0)

    def _insert(self, state: list[Any], stamps: list[int], values: list[bytes]) -> None:
        """Adds sorted entries to the tree, bucket by bucket."""
        overflow = self._owner.overflow
        nodes = state[_NODES]
        if not nodes:
            number = overflow.create([[], [], [], [], []], 0)
            nodes.append([stamps[0], stamps[0], number])
        position = 0
        while position < len(stamps):
            overflow.cache.trim()
            stamp = stamps[position]
            at = max(0, bisect_right(nodes, stamp, key=_first) - 1)
            node = nodes[at]
            entry = overflow.load([node[_NUMBER]])[0]
            firsts = entry.content[_FIRSTS]
            buckets = len(firsts)
            bucket = max(0, bisect_right(firsts, stamp) - 1)
            until = len(stamps)
            if bucket + 1 < len(firsts):
                until = bisect_left(stamps, firsts[bucket + 1], position)
            elif at + 1 < len(nodes):
                until = bisect_left(stamps, nodes[at + 1][_FIRST], position)
            self._fill(entry, bucket, stamps[position:until], values[position:until])
            self._note_node(nodes, at, entry, buckets)
            position = until

    def _fill(self, node: Entry, bucket: int, stamps: list[int], values: list[bytes]) -> None:
        """Adds entries to a bucket of a node, which may become several."""
        overflow = self._owner.overflow
        content = node.content
        if content[_NUMBERS]:
            before = content[_SIZES][bucket]
            entry = overflow.load([content[_NUMBERS][bucket]])[0]
            size = before + _size(values)
            all_stamps, all_values = entry.content
            _merge(all_stamps, all_values, stamps, values)
            stamps, values = all_stamps, all_values
            if size <= BUCKET_BYTES:
                overflow.resize(entry, before, size)
                _set_buckets(content, bucket, [_bucket(stamps, content[_NUMBERS][bucket], size)])
                return
            overflow.delete([content[_NUMBERS][bucket]], before)
        buckets = []
        for low, high, size in _pieces(values):
            part = stamps[low:high]
            buckets.append(_bucket(part, overflow.create([part, values[low:high]], size), size))
        _set_buckets(content, bucket, buckets)

    def _note_node(self, nodes: list[Any], at: int, entry: Entry, before: int) -> None:
        """Brings the record's knowledge of a changed node up to date; splits a large one."""
        overflow = self._owner.overflow
        content = entry.content
        parts = [content]
        if len(content[_FIRSTS]) > _NODE_BUCKETS:
            half = _NODE_BUCKETS // 2
            lows = range(0, len(content[_FIRSTS]), half)
            parts = [[column[low : low + half] for column in content] for low in lows]
            entry.content = parts[0]
        overflow.resize(entry, _node_size(before), _node_size(len(parts[0][_FIRSTS])))
        numbers = [nodes[at][_NUMBER]]
        numbers += [overflow.create(part, _node_size(len(part[_FIRSTS]))) for part in parts[1:]]
        nodes[at : at + 1] = [
            [part[_FIRSTS][0], part[_LASTS][-1], number]
            for part, number in zip(parts, numbers, strict=True)
        ]

    def _clear_node(self, nodes: list[Any], at: int, start: int, end: int) -> int:
        """Removes what a node has within a range; says how many entries that were.

        A node of which nothing is left has no number then.
        """
        overflow = self._owner.overflow
        entry = overflow.load([nodes[at][_NUMBER]])[0]
        content = entry.content
        before = len(content[_FIRSTS])
        removed = 0
        low, high = bisect_left(content[_LASTS], start), bisect_left(content[_FIRSTS], end)
        for bucket in {low, high - 1} if low < high else ():
            if content[_FIRSTS][bucket] < start or content[_LASTS][bucket] >= end:
                removed += self._clear_bucket(content, bucket, start, end)
        low, high = bisect_left(content[_FIRSTS], start), bisect_left(content[_LASTS], end)
        if low < high:
            removed += sum(content[_COUNTS][low:high])
            overflow.delete(content[_NUMBERS][low:high], sum(content[_SIZES][low:high]))
            for column in content:
                del column[low:high]
        if content[_FIRSTS]:
            self._note_node(nodes, at, entry, before)
        else:
            overflow.delete([nodes[at][_NUMBER]], _node_size(before))
            nodes[at][_NUMBER] = None
        return removed

    def _clear_bucket(self, content: list[list[int]], at: int, start: int, end: int) -> int:
        """Removes what a bucket has within a range that does not cover it."""
        overflow = self._owner.overflow
        entry = overflow.load([content[_NUMBERS][at]])[0]
        stamps, values = entry.content
        low, high = bisect_left(stamps, start), bisect_left(stamps, end)
        before = content[_SIZES][at]
        size = before - _size(values[low:high])
        del stamps[low:high], values[low:high]
        overflow.resize(entry, before, size)
        _set_buckets(content, at, [_bucket(stamps, content[_NUMBERS][at], size)])
        return high - low

    def _shrink(self, state: list[Any]) -> None:
        """Takes what is left into the record, if that is one small bucket."""
        overflow = self._owner.overflow
        node = state[_NODES][0][_NUMBER]
        content = overflow.load([node])[0].content
        if len(content[_NUMBERS]) > 1 or content[_SIZES][0] > SMALL_BYTES // 2:
            return
        state[_STAMPS], state[_VALUES] = overflow.load(content[_NUMBERS])[0].content
        state[_BYTES] = content[_SIZES][0]
        state[_NODES] = []
        overflow.delete(content[_NUMBERS], content[_SIZES][0])
        overflow.delete([node], _node_size(1))


def drop_ordered(state: list[Any], overflow: Overflow) -> None:
    """Removes the buckets and nodes of an ordered bag."""
    for node in state[_NODES]:
        entry = overflow.load([node[_NUMBER]])[0]
        overflow.delete(entry.content[_NUMBERS], sum(entry.content[_SIZES]))
        overflow.delete([node[_NUMBER]], _node_size(len(entry.content[_FIRSTS])))


def _between(nodes: list[Any], start: int, end: int) -> tuple[int, int]:
    """The nodes that may have entries within a range: from, until."""
    return bisect_left(nodes, start, key=_last), bisect_left(nodes, end, key=_first)


def _node_size(buckets: int) -> int:
    return _BUCKET_ENTRY_BYTES * buckets


def _size(values: list[bytes]) -> int:
    return sum(map(len, values)) + _STAMP_BYTES * len(values)


def _merge(
    stamps: list[int], values: list[bytes], more: list[int], more_values: list[bytes]
) -> None:
    """Adds sorted entries to sorted entries, behind those of the same timestamp."""
    if not stamps or stamps[-1] <= more[0]:
        stamps += more
        values += more_values
    elif len(more) <= 4:
        for stamp, value in zip(more, more_values, strict=True):
            at = bisect_right(stamps, stamp)
            stamps.insert(at, stamp)
            values.insert(at, value)
    else:
        merged = [*zip(stamps, values, strict=True), *zip(more, more_values, strict=True)]
        merged.sort(key=_first)
        stamps[:] = [stamp for stamp, _ in merged]
        values[:] = [value for _, value in merged]


def _pieces(values: list[bytes]) -> Iterator[tuple[int, int, int]]:
    """Parts of a list of about equal size: from, until, bytes."""
    low = size = 0
    for at, value in enumerate(values):
        size += len(value) + _STAMP_BYTES
        if size >= _PIECE_BYTES:
            yield low, at + 1, size
            low, size = at + 1, 0
    if size:
        yield low, len(values), size


def _bucket(stamps: list[int], number: int, size: int) -> tuple[int, int, int, int, int]:
    """A bucket as its node knows it."""
    return stamps[0], stamps[-1], number, len(stamps), size


def _set_buckets(
    content: list[list[int]], at: int, buckets: list[tuple[int, int, int, int, int]]
) -> None:
    """Puts buckets in the place of one."""
    for column, part in zip(content, zip(*buckets, strict=True), strict=True):
        column[at : at + 1] = part

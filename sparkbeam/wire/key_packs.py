"""Packs of keys with cells, many in one row of a shuffle.

Spark takes longer to place, sort and pass on a row than a combine takes to merge it. So a row has a
*pack* of keys in the same *bucket*, each with a cell, and each key with an *order*.

In the row of a pack, ``key`` is the bucket in two bytes, by which Spark partitions and sorts, and
``ord`` the least order of its keys, which sorts the packs of a bucket. ``value`` has the kind of
the cells in one byte, their number, the length of all cells or 0, the lengths of each key and (if
those differ) of its cell, the concatenated keys, and the cells.

In groups the order is a function of the key. A writer of much data divides buckets into packs at
fixed orders, so that a reader need not hold a large bucket at once. The order of accumulators is
their time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkbeam.wire.binary import (
    between,
    binary,
    buffer_of,
    bytes_of,
    fixed_cells,
    offsets_of,
    take_cells,
)
from sparkbeam.wire.keywords import hashes_of, mixed
from sparkbeam.wire.rows import CELL_BYTES, Orders, RowWriter

_BUCKETS = 4096
_KEY_BUCKETS, _SPAN_BUCKETS = 256, 16
"""Buckets of accumulators: a key has neighbouring ones, for spans of time."""
_PARTS_BITS = 4
"""Number of parts of a divided bucket, as a power of 2."""
_ORDER_BITS = 63
_MUCH = 16 << 20
"""Buckets are divided from this many bytes per write."""
_WHOLE_BYTES = 4 << 20
"""Bytes of whole buckets read at once."""
_MOST_BYTES = 16 << 20
"""Larger buckets are read in parts."""

_COUNT = np.dtype("<u4")
_HEAD = np.dtype([("kind", "u1"), ("count", _COUNT), ("cell", _COUNT)])
_OF_KEY = np.dtype([("key", _COUNT)])
_OF_BOTH = np.dtype([("key", _COUNT), ("cell", _COUNT)])

_Numbers = npt.NDArray[np.int64]


class CellKind(IntEnum):
    """Kind of the cells of a row."""

    VALUES = 1
    """One value per cell."""

    RUNS = 2
    """A run of values per cell."""

    AGGREGATE = 3
    """One accumulator per cell, ordered by time."""


@dataclass(frozen=True)
class CellsOfKeys:
    """Keys, each with a cell; a key may occur several times.

    Attributes:
        keys, cells: binary.
    """

    keys: pa.Array
    cells: pa.Array

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """Size of keys and cells in bytes."""
        return int(self.keys.nbytes + self.cells.nbytes)

    def take(self, rows: npt.NDArray[np.int64]) -> "CellsOfKeys":
        """Return the rows at some positions."""
        return CellsOfKeys(take_cells(self.keys, rows), take_cells(self.cells, rows))

    @staticmethod
    def joined(parts: "list[CellsOfKeys]") -> "CellsOfKeys":
        """Concatenate."""
        if len(parts) == 1:
            return parts[0]
        nothing = [pa.array([], pa.binary())]
        return CellsOfKeys(
            pa.concat_arrays([one.keys for one in parts] or nothing),
            pa.concat_arrays([one.cells for one in parts] or nothing),
        )


@dataclass(frozen=True)
class CellsRead:
    """Rows read at once.

    Attributes:
        some: the cells of each kind.
        until: bucket and order of the next row, if more may follow for keys in that bucket from
            this order on; None if all keys are complete.
    """

    some: dict[CellKind, CellsOfKeys]
    until: tuple[int, int] | None = None


def bucket_and_order(keys: pa.Array) -> tuple[npt.NDArray[np.int64], Orders]:
    """Return the buckets and the orders of keys.

    Args:
        keys: binary.
    """
    hashes = hashes_of(keys)
    order = (mixed(hashes) >> np.uint64(64 - _ORDER_BITS)).astype(np.int64)
    return (hashes % np.uint64(_BUCKETS)).astype(np.int64), order


def write(rows: RowWriter, tag: int, kind: CellKind, some: CellsOfKeys) -> None:
    """Write keys and their cells.

    The cells of a key stay in order.

    Args:
        some: at least one.
    """
    found = some.keys.dictionary_encode()
    of_keys, orders_of_keys = bucket_and_order(found.dictionary)
    places = found.indices.to_numpy().astype(np.int64)
    # By bucket and order; stable for equal keys.
    ranks = np.empty(len(of_keys), np.int64)
    ranks[np.lexsort((orders_of_keys, of_keys))] = np.arange(len(of_keys))
    arranged = np.argsort(ranks[places], kind="stable")
    buckets, orders = of_keys[places][arranged], orders_of_keys[places][arranged]
    parts = buckets
    if some.nbytes >= _MUCH:
        parts = buckets << _PARTS_BITS | orders >> (_ORDER_BITS - _PARTS_BITS)
    write_packs(rows, tag, kind, some.take(arranged), buckets, orders, parts)


def write_large(rows: RowWriter, tag: int, key: bytes, run: bytes) -> None:
    """Write a key with a large run of values, which is not copied more than once."""
    bucket, order = bucket_and_order(pa.array([key], pa.binary()))
    head = np.array((CellKind.RUNS, 1, len(run)), _HEAD).tobytes()
    value = b"".join((head, np.array(len(key), _COUNT).tobytes(), key, run))
    rows.append(tag, _written(bucket)[0].as_py(), int(order[0]), value)


def write_by_time(
    rows: RowWriter, tag: int, some: CellsOfKeys, orders: Orders, spans: Orders | None = None
) -> None:
    """Write accumulators.

    Args:
        some: keys, and the accumulators as cells.
        orders: the time of each.
        spans: cells to merge have equal key and span; None if they have the same key.
    """
    if not len(some):
        return
    hashes = hashes_of(some.keys)
    of_spans = mixed(hashes if spans is None else hashes ^ spans.astype(np.uint64))
    of_keys = hashes % np.uint64(_KEY_BUCKETS) * np.uint64(_SPAN_BUCKETS)
    buckets = (of_keys + of_spans % np.uint64(_SPAN_BUCKETS)).astype(np.uint16)
    if np.bincount(buckets).max() * some.nbytes > len(some) * CELL_BYTES:
        # A large bucket is in several packs, in order of time.
        by_time = np.argsort(orders, kind="stable")
        order = by_time[np.argsort(buckets[by_time], kind="stable")]
    else:
        order = np.argsort(buckets, kind="stable")
    buckets = buckets[order]
    kind = CellKind.AGGREGATE
    write_packs(rows, tag, kind, some.take(order), buckets, orders[order], buckets)


def write_packs(
    rows: RowWriter,
    tag: int,
    kind: CellKind,
    some: CellsOfKeys,
    buckets: npt.NDArray[Any],
    orders: Orders,
    parts: npt.NDArray[Any],
) -> None:
    """Write keys and their cells, of which neighbours are in the same pack.

    Args:
        some: at least one, by bucket.
        buckets: the bucket of each, which has 16 bits.
        orders: the order of each.
        parts: numbers that differ for neighbours that are in different packs.
    """
    of_keys, of_cells = np.diff(offsets_of(some.keys)), np.diff(offsets_of(some.cells))
    same = int(of_cells[0]) if (of_cells == of_cells[0]).all() else 0
    lengths = np.empty(len(some), _OF_KEY if same else _OF_BOTH)
    lengths["key"] = of_keys
    if not same:
        lengths["cell"] = of_cells
    begins = _begins(parts, np.cumsum(of_keys.astype(np.int64) + of_cells))
    heads = np.empty(len(begins), _HEAD)
    heads["kind"], heads["count"], heads["cell"] = kind, np.diff(begins, append=len(some)), same
    packs = pc.binary_join_element_wise(
        fixed_cells(heads),
        _cut(lengths.view(np.uint8), begins * lengths.itemsize),
        _cut(bytes_of(some.keys), _offsets(of_keys)[begins]),
        _cut(bytes_of(some.cells), _offsets(of_cells)[begins]),
        pa.scalar(b"", pa.binary()),
    )
    least = np.minimum.reduceat(orders, begins)
    rows.extend_columns(tag, _written(buckets[begins]), least, packs)


def _begins(parts: npt.NDArray[Any], ends: _Numbers) -> _Numbers:
    """Return the start of each pack: at each part, and at the size limit.

    Args:
        parts: sorted numbers.
        ends: cumulative bytes.
    """
    is_first = np.concatenate([[True], parts[1:] != parts[:-1]])
    firsts = np.flatnonzero(is_first)
    before = np.concatenate([[0], ends[:-1]])
    if np.diff(before[firsts], append=ends[-1]).max() <= CELL_BYTES:
        return firsts
    within = before - np.repeat(before[firsts], np.diff(firsts, append=len(parts)))
    number = within // CELL_BYTES
    return np.flatnonzero(is_first | np.concatenate([[False], number[1:] != number[:-1]]))


def _written(buckets: npt.NDArray[Any]) -> pa.Array:
    return fixed_cells(buckets.astype(">u2"))


def _offsets(lengths: npt.NDArray[Any]) -> _Numbers:
    """Return the start offset of each part, and the end."""
    return np.concatenate([[0], np.cumsum(lengths.astype(np.int64))])


def _cut(data: npt.NDArray[np.uint8], begins: _Numbers) -> pa.Array:
    """Cut bytes at offsets."""
    return binary(np.append(begins, len(data)).astype(np.int32), data)


def read(batches: Iterator[pa.RecordBatch]) -> Iterator[CellsRead]:
    """Read batches of rows that are sorted by bucket and order.

    A whole bucket is read at once, unless it is large: then as far as no earlier key can follow.
    """
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        for part in _parts(batch):
            is_whole = bool(waiting) and waiting[-1].column(1)[-1] != part.column(1)[0]
            if waiting and size >= (_WHOLE_BYTES if is_whole else max(_WHOLE_BYTES, _MOST_BYTES)):
                until = None
                if not is_whole:
                    bucket, order = part.column(1)[0].as_py(), part.column(2)[0].as_py()
                    until = int.from_bytes(bucket, "big"), order
                yield _read(waiting, until)
                waiting, size = [], 0
            waiting.append(part)
            size += part.nbytes
    if waiting:
        yield _read(waiting, None)


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch into several small buckets or a part of one bucket."""
    count = batch.num_rows
    if not count:
        return
    buckets = bytes_of(batch.column(1)).view(">u2")
    bounds = np.flatnonzero(np.concatenate([[True], buckets[1:] != buckets[:-1], [True]]))
    ends = np.cumsum(np.diff(offsets_of(batch.column(3))), dtype=np.int64)
    start = 0
    while start < count:
        before = int(ends[start - 1]) if start else 0
        # Rows up to the limit of bytes.
        stop = int(np.searchsorted(ends, before + _WHOLE_BYTES, "right"))
        last_bound = int(bounds[np.searchsorted(bounds, stop, "right") - 1])
        stop = last_bound if last_bound > start else max(stop, start + 1)
        yield batch.slice(start, stop - start)
        start = stop


def _read(parts: list[pa.RecordBatch], until: tuple[int, int] | None) -> CellsRead:
    rows = pa.concat_arrays([part.column(3).cast(pa.binary()) for part in parts])
    offsets = offsets_of(rows).astype(np.int64)
    data = bytes_of(rows)
    starts = offsets[:-1] - offsets[0]
    kinds = data[starts]
    some = {
        kind: _unpacked(rows.take(pa.array(np.flatnonzero(kinds == kind))))
        for kind in CellKind
        if np.any(kinds == kind)
    }
    return CellsRead(some, until)


def _unpacked(packs: pa.Array) -> CellsOfKeys:
    """Unpack keys and cells of one kind."""
    starts, data = offsets_of(packs).astype(np.int64)[:-1], buffer_of(packs)
    heads = data[starts[:, np.newaxis] + np.arange(_HEAD.itemsize)].view(_HEAD).reshape(len(packs))
    same = np.unique(heads["cell"]).tolist()
    if len(same) == 1:
        return _unpacked_alike(packs, heads["count"].astype(np.int64), same[0])
    some = (packs.filter(pa.array(heads["cell"] == length)) for length in same)
    return CellsOfKeys.joined([*map(_unpacked, some)])


def _unpacked_alike(packs: pa.Array, counts: _Numbers, same: int) -> CellsOfKeys:
    """Unpack keys and cells.

    Args:
        packs: those whose cells have the same length, or those whose cells have different ones.
        counts: the number of keys in each.
        same: the length of all cells; 0 if they differ.
    """
    data = bytes_of(packs)
    offsets = offsets_of(packs).astype(np.int64)
    starts, ends = offsets[:-1] - offsets[0], offsets[1:] - offsets[0]
    kind = _OF_KEY if same else _OF_BOTH
    of_lengths = starts + _HEAD.itemsize
    of_keys = of_lengths + counts * kind.itemsize
    lengths = bytes_of(between(data, of_lengths, of_keys)).view(kind)
    bounds = np.concatenate([[0], np.cumsum(counts)])
    of_each = _offsets(lengths["key"])
    of_cells = of_keys + (of_each[bounds[1:]] - of_each[bounds[:-1]])
    begins = np.arange(bounds[-1]) * same if same else _offsets(lengths["cell"])[:-1]
    return CellsOfKeys(
        _cut(bytes_of(between(data, of_keys, of_cells)), of_each[:-1]),
        _cut(bytes_of(between(data, of_cells, ends)), begins),
    )

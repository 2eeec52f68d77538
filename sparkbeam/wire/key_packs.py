"""Packs of keys with cells, many in one row of a shuffle.

As in :mod:`sparkbeam.wire.row_packs` a row has a *bucket* of keys, by which Spark partitions and
sorts; here cells may have any length, and a key any number of them. Each key has an *order*, which
is a function of the key.

In the row of a pack, ``key`` is the bucket in two bytes and ``ord`` the least order of its keys.
``value`` has the kind of the cells in one byte, their number, the lengths of each key and its cell,
the concatenated keys, and the cells. A large cell is alone, with its key.

So a large key can be streamed: its rows are adjacent, and preceded only by rows with little data of
it. A writer of much data divides buckets into packs at fixed orders, so that a reader need not hold
a large bucket at once.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkbeam.wire.binary import binary, bytes_of, fixed_cells, offsets_of
from sparkbeam.wire.buckets import gathered
from sparkbeam.wire.keywords import KeyWords, mixed
from sparkbeam.wire.rows import CELL_BYTES, Orders, RowWriter

_BUCKETS = 4096
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
_HEAD = np.dtype([("kind", "u1"), ("count", _COUNT)])
_LENGTHS = np.dtype([("key", _COUNT), ("cell", _COUNT)])
_ONE = struct.Struct("<BI")

_Numbers = npt.NDArray[np.int64]


class CellKind(IntEnum):
    """Kind of the cells of a row."""

    VALUES = 1
    """One value per cell."""

    RUNS = 2
    """A run of values per cell."""

    LARGE_RUN = 3
    """A large run of values of one key."""


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

    def take(self, rows: npt.NDArray[np.int64]) -> "CellsOfKeys":
        """Return the rows at some positions."""
        places = pa.array(rows)
        return CellsOfKeys(self.keys.take(places), self.cells.take(places))

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
        some: keys with cells, by kind.
        large: keys with large runs, in order.
        until: bucket and order of the next row, if more may follow for keys in that bucket from
            this order on; None if all keys are complete.
    """

    some: dict[CellKind, CellsOfKeys]
    large: list[tuple[bytes, bytes]] = field(default_factory=list)
    until: tuple[int, int] | None = None


def bucket_and_order(keys: pa.Array) -> tuple[npt.NDArray[np.int64], Orders]:
    """Return the buckets and the orders of keys.

    Args:
        keys: binary.
    """
    hashes = KeyWords(keys).hashes(np.arange(len(keys)))
    order = (mixed(hashes) >> np.uint64(64 - _ORDER_BITS)).astype(np.int64)
    return (hashes % np.uint64(_BUCKETS)).astype(np.int64), order


def write_large(rows: RowWriter, tag: int, key: bytes, cells: Iterator[bytes]) -> None:
    """Write a key with large runs."""
    bucket, order = bucket_and_order(pa.array([key], pa.binary()))
    for cell in cells:
        value = _ONE.pack(CellKind.LARGE_RUN, len(key)) + key + cell
        rows.append(tag, _written(bucket)[0].as_py(), int(order[0]), value)


def write(rows: RowWriter, tag: int, kind: CellKind, some: CellsOfKeys) -> None:
    """Write keys and their cells.

    The cells of a key stay in order.

    Args:
        rows: the writer.
        tag: of the port.
        kind: of the cells.
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
    sorted_ = some.take(arranged)
    lengths = np.empty(len(some), _LENGTHS)
    lengths["key"] = np.diff(offsets_of(sorted_.keys))
    lengths["cell"] = np.diff(offsets_of(sorted_.cells))
    ends = np.cumsum(lengths["key"].astype(np.int64) + lengths["cell"])
    parts = buckets
    if ends[-1] >= _MUCH:
        parts = buckets << _PARTS_BITS | orders >> (_ORDER_BITS - _PARTS_BITS)
    begins = _begins(parts, ends)
    counts = np.diff(begins, append=len(some))
    heads = np.empty(len(begins), _HEAD)
    heads["kind"], heads["count"] = kind, counts
    packs = pc.binary_join_element_wise(
        fixed_cells(heads),
        _cut(lengths.view(np.uint8), begins * _LENGTHS.itemsize),
        _cut(bytes_of(sorted_.keys), _offsets(lengths["key"])[begins]),
        _cut(bytes_of(sorted_.cells), _offsets(lengths["cell"])[begins]),
        pa.scalar(b"", pa.binary()),
    )
    rows.extend_columns(tag, _written(buckets[begins]), orders[begins], packs)


def _begins(parts: _Numbers, ends: _Numbers) -> _Numbers:
    """Return the start of each pack: at each part, and at the size limit.

    Args:
        parts: sorted numbers.
        ends: cumulative bytes.
    """
    is_first = np.concatenate([[True], parts[1:] != parts[:-1]])
    firsts = np.flatnonzero(is_first)
    before = np.concatenate([[0], ends[:-1]])
    within = before - np.repeat(before[firsts], np.diff(firsts, append=len(parts)))
    number = within // CELL_BYTES
    return np.flatnonzero(is_first | np.concatenate([[False], number[1:] != number[:-1]]))


def _written(buckets: _Numbers) -> pa.Array:
    return fixed_cells(buckets.astype(">u2"))


def _offsets(lengths: npt.NDArray[np.uint32]) -> _Numbers:
    """Return the start offset of each part, and the end."""
    return np.concatenate([[0], np.cumsum(lengths.astype(np.int64))])


def _cut(data: npt.NDArray[np.uint8], begins: _Numbers) -> pa.Array:
    """Cut bytes at offsets."""
    return binary(np.append(begins, len(data)).astype(np.int32), data)


def read(batches: Iterator[pa.RecordBatch]) -> Iterator[CellsRead]:
    """Read batches of rows that are sorted by bucket and order."""
    for parts, following in gathered(batches, _WHOLE_BYTES, _MOST_BYTES):
        yield _read(parts, None if following is None else _first(following))


def _first(part: pa.RecordBatch) -> tuple[int, int]:
    return int.from_bytes(part.column(1)[0].as_py(), "big"), part.column(2)[0].as_py()


def _read(parts: list[pa.RecordBatch], until: tuple[int, int] | None) -> CellsRead:
    rows = pa.concat_arrays([part.column(3).cast(pa.binary()) for part in parts])
    offsets = offsets_of(rows).astype(np.int64)
    data = bytes_of(rows)
    starts = offsets[:-1] - offsets[0]
    kinds = data[starts]
    some = {
        kind: _unpacked(rows.take(pa.array(np.flatnonzero(kinds == kind))))
        for kind in (CellKind.VALUES, CellKind.RUNS)
        if np.any(kinds == kind)
    }
    large = [
        _one(rows[place].as_py()) for place in np.flatnonzero(kinds == CellKind.LARGE_RUN).tolist()
    ]
    return CellsRead(some, large, until)


def _one(row: bytes) -> tuple[bytes, bytes]:
    _, length = _ONE.unpack_from(row)
    end = _ONE.size + length
    return row[_ONE.size : end], row[end:]


def _unpacked(packs: pa.Array) -> CellsOfKeys:
    """Unpack keys and cells of one kind."""
    data = bytes_of(packs)
    offsets = offsets_of(packs).astype(np.int64)
    starts, ends = offsets[:-1] - offsets[0], offsets[1:] - offsets[0]
    heads = data[starts[:, np.newaxis] + np.arange(_HEAD.itemsize)].view(_HEAD)["count"]
    counts = heads.reshape(len(packs)).astype(np.int64)
    of_lengths = starts + _HEAD.itemsize
    of_keys = of_lengths + counts * _LENGTHS.itemsize
    lengths = _between(data, of_lengths, of_keys).view(_LENGTHS)
    bounds = np.concatenate([[0], np.cumsum(counts)])
    of_each = _offsets(lengths["key"])
    of_cells = of_keys + (of_each[bounds[1:]] - of_each[bounds[:-1]])
    return CellsOfKeys(
        _cut(_between(data, of_keys, of_cells), of_each[:-1]),
        _cut(_between(data, of_cells, ends), _offsets(lengths["cell"])[:-1]),
    )


def _between(
    data: npt.NDArray[np.uint8], starts: _Numbers, ends: _Numbers
) -> npt.NDArray[np.uint8]:
    """Concatenate non-overlapping parts of bytes."""
    bounds = np.stack([starts, ends], axis=1).astype(np.int32).ravel()
    pieces = binary(np.append(bounds, bounds[-1]), data)
    return bytes_of(pieces.take(pa.array(np.arange(0, len(bounds), 2))))

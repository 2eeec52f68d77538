"""Packs of many small rows of a shuffle.

Spark takes longer to place, sort and pass on a row than a combine takes to merge it. So rows of
accumulators travel in *packs*, each with keys of the same *bucket*. A row may also have a *span*:
rows to merge have equal key and span. So the rows of a key are spread over several adjacent
buckets.

In the row of a pack, ``key`` is the bucket in two bytes, by which Spark partitions and sorts, and
``ord`` the least order of its rows, which sorts the packs of a bucket. The first byte of ``value``
is the kind: fixed-width records behind their layout, or a single row that is too long for a
layout.

A *layout* is the maximum length of the keys of records, in words of eight bytes, and the length of
their values. A reader holds a whole bucket before it continues, unless the bucket is large: then it
continues as far as no earlier row can follow.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkbeam.wire.binary import binary, buffer_of, bytes_of, fixed_cells, offsets_of
from sparkbeam.wire.buckets import gathered
from sparkbeam.wire.keywords import MOST_WORDS, WORD, Hashes, KeyWords, mixed
from sparkbeam.wire.rows import CELL_BYTES, ManyRowsWriter, Orders, Row

_OF_KEYS = 256
_OF_SPANS = 16
_MOST_VALUE = 1024
_WHOLE_BYTES = 4 << 20
"""Bytes of whole buckets read at once."""
_MOST_BYTES = 32 << 20
"""Larger buckets are read in parts."""

_LAYOUT, _SINGLE = 255, 254
_HEAD = struct.Struct("<Bq")
_OF_SINGLE = struct.Struct("<BIqq")
_Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Unpacked:
    """Unordered rows with all their keys.

    Attributes:
        keys: the distinct keys.
        places: the index of each row's key.
        spans: of each row.
        orders: of each row.
        values: of each row.
        until: rows of these keys with this order or later ones may follow; None if none do.
    """

    keys: pa.Array
    places: _Places
    spans: Orders
    orders: Orders
    values: pa.Array
    until: int | None


class PackedRows:
    """Writer of rows in packs.

    Args:
        rows: the writer of the packs.
    """

    def __init__(self, rows: ManyRowsWriter) -> None:
        self._rows = rows

    def extend(
        self,
        tag: int,
        keys: list[bytes],
        orders: list[int],
        values: list[bytes],
        spans: list[int] | None = None,
    ) -> None:
        """Add many rows of one port."""
        given = None if spans is None else np.array(spans, np.int64)
        cells = pa.array(values, pa.binary())
        self.extend_columns(tag, pa.array(keys, pa.binary()), np.array(orders), cells, given)

    def extend_columns(
        self,
        tag: int,
        keys: pa.Array,
        orders: Orders,
        values: pa.Array,
        spans: Orders | None = None,
    ) -> None:
        """Add many rows of one port, as columns."""
        if not len(keys):
            return
        given = np.zeros(len(keys), np.int64) if spans is None else spans
        found = KeyWords(keys)
        lengths = np.diff(offsets_of(values)).astype(np.int64)
        layouts = found.words << 32 | lengths
        layouts[(found.words > MOST_WORDS) | (lengths > _MOST_VALUE) | (lengths == 0)] = 0
        for layout in kinds_of(layouts):
            rows = np.flatnonzero(layouts == layout)
            buckets = _buckets(found.hashes(rows), given[rows])
            times = given[rows], orders[rows]
            cells = values if len(rows) == len(keys) else values.take(pa.array(rows))
            if layout:
                records = _records(layout, found, rows, *times, cells)
                packs = _packs(layout, records, buckets)
            else:
                singles = _singles(keys.take(pa.array(rows)), *times, cells)
                packs = buckets, times[1], singles
            self._rows.extend_columns(tag, fixed_cells(packs[0].astype(">u2")), *packs[1:])


def kinds_of(numbers: npt.NDArray[np.int64]) -> list[int]:
    """Return the distinct numbers; fast if all are equal."""
    if len(numbers) and (numbers == numbers[0]).all():
        return [int(numbers[0])]
    found: list[int] = np.unique(numbers).tolist()
    return found


def _buckets(hashes: Hashes, spans: Orders) -> npt.NDArray[np.uint16]:
    """Return the bucket of each row."""
    of_span = mixed(hashes ^ spans.view(np.uint64)) % np.uint64(_OF_SPANS)
    found = hashes % np.uint64(_OF_KEYS) * np.uint64(_OF_SPANS) + of_span
    return found.astype(np.uint16)


def _kind(layout: int) -> np.dtype[Any]:
    """Return the record type of a layout."""
    words, length = layout >> 32, layout & 0xFFFFFFFF
    times = [("span", "<i8"), ("order", "<i8")]
    return np.dtype([("length", "u1"), ("key", "<u8", (words,)), *times, ("value", f"V{length}")])


def _records(
    layout: int, keys: KeyWords, rows: _Places, spans: Orders, orders: Orders, values: pa.Array
) -> npt.NDArray[Any]:
    """Return the records of rows, followed by the one that defines the layout."""
    kind = _kind(layout)
    records = np.empty(len(rows) + 1, kind)
    of_rows = records[:-1]
    of_rows["length"] = keys.lengths[rows]
    for number in range(layout >> 32):
        of_rows["key"][:, number] = keys.word(rows, number)
    of_rows["span"] = spans
    of_rows["order"] = orders
    of_rows["value"] = bytes_of(values).view(kind["value"])
    head = _HEAD.pack(_LAYOUT, layout).ljust(kind.itemsize, b"\0")
    records[-1:] = np.frombuffer(head, kind)
    return records


def _packs(
    layout: int, records: npt.NDArray[Any], buckets: npt.NDArray[np.uint16]
) -> tuple[npt.NDArray[np.uint16], Orders, pa.Array]:
    """Return the bucket, the least order and the value of each pack."""
    size, orders = records.dtype.itemsize, records["order"][:-1].astype(np.int64)
    most = max(1, CELL_BYTES // size)
    order = np.argsort(buckets, kind="stable")
    firsts = _firsts(buckets[order])
    counts = np.diff(firsts, append=len(order))
    cuts = [firsts]
    for place in np.flatnonzero(counts > most).tolist():
        # A large bucket is read in parts, divided by time.
        part = slice(int(firsts[place]), int(firsts[place] + counts[place]))
        order[part] = order[part][np.argsort(orders[order[part]], kind="stable")]
        cuts.append(np.arange(part.start + most, part.stop, most))
    begins = np.sort(np.concatenate(cuts))
    lengths = np.diff(begins, append=len(order))
    taken = np.full(len(order) + len(begins), len(order))
    taken[np.arange(len(order)) + np.repeat(np.arange(len(begins)), lengths) + 1] = order
    # Numpy copies bytes faster than records.
    written = np.take(records.view(f"V{size}"), taken)
    offsets = np.concatenate([[0], np.cumsum((lengths + 1) * size)]).astype(np.int32)
    least = np.minimum.reduceat(orders[order], begins)
    return buckets[order[begins]], least, binary(offsets, written)


def _singles(keys: pa.Array, spans: Orders, orders: Orders, values: pa.Array) -> pa.Array:
    rows = zip(keys.to_pylist(), spans.tolist(), orders.tolist(), values.to_pylist(), strict=True)
    return pa.array(
        (
            _OF_SINGLE.pack(_SINGLE, len(key), span, order) + key + value
            for key, span, order, value in rows
        ),
        pa.binary(),
    )


def unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[Unpacked]:
    """Unpack batches of packs that are sorted by bucket and order."""
    for parts, following in gathered(batches, _WHOLE_BYTES, _MOST_BYTES):
        yield _unpacked(parts, None if following is None else following.column(2)[0].as_py())


def rows_of(packed: Iterator[Unpacked]) -> Iterator[Row]:
    """Yield single rows by key and order; holds all rows of a bucket in memory."""
    waiting: list[Unpacked] = []
    for some in packed:
        waiting.append(some)
        if some.until is None:
            yield from _in_order(waiting)
            waiting = []


def _in_order(parts: list[Unpacked]) -> Iterator[Row]:
    rows = [
        row
        for part in parts
        for row in zip(
            part.keys.take(pa.array(part.places)).to_pylist(),
            part.orders.tolist(),
            part.values.to_pylist(),
            strict=True,
        )
    ]
    rows.sort()
    yield from rows


def _unpacked(parts: list[pa.RecordBatch], until: int | None) -> Unpacked:
    values = pa.concat_arrays([part.column(3).cast(pa.binary()) for part in parts])
    starts, data = offsets_of(values)[:-1].astype(np.int64), buffer_of(values)
    kinds = data[starts]
    singles = np.flatnonzero(kinds == _SINGLE)
    packs = np.flatnonzero(kinds == _LAYOUT)
    heads = data[starts[packs][:, np.newaxis] + np.arange(1, _HEAD.size)]
    layouts = heads.view("<i8").reshape(len(packs))
    found = [
        _of_layout(layout, values.take(pa.array(packs[layouts == layout])))
        for layout in kinds_of(layouts)
    ]
    if len(singles):
        found.append(_of_singles(values.take(pa.array(singles)).to_pylist()))
    if len(found) == 1:
        return Unpacked(*found[0], until)
    return Unpacked(*_joined(found), until)


_Found = tuple[pa.Array, _Places, Orders, Orders, pa.Array]
"""Keys, the key index of each row, spans, orders and values."""


def _of_layout(layout: int, packs: pa.Array) -> _Found:
    kind = _kind(layout)
    records = bytes_of(packs).view(kind)
    records = records[records["length"] != _LAYOUT]
    size = 1 + WORD * (layout >> 32)
    raw = records.view(np.uint8).reshape(len(records), kind.itemsize)
    padded = pa.py_buffer(np.ascontiguousarray(raw[:, :size]))
    encoded = pa.Array.from_buffers(pa.binary(size), len(records), [None, padded])
    encoded = encoded.dictionary_encode()
    distinct = np.frombuffer(encoded.dictionary.buffers()[1], np.uint8)
    distinct = distinct[: len(encoded.dictionary) * size].reshape(-1, size)
    lengths = distinct[:, 0].astype(np.int64)
    chosen = distinct[:, 1:][np.arange(size - 1) < lengths[:, np.newaxis]]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    times = (records[name].astype(np.int64) for name in ("span", "order"))
    values = np.ascontiguousarray(raw[:, kind.itemsize - kind["value"].itemsize :])
    return (
        binary(offsets, chosen),
        encoded.indices.to_numpy().astype(np.int64),
        *times,
        fixed_cells(values.view(kind["value"]).reshape(len(records))),
    )


def _of_singles(cells: list[bytes]) -> _Found:
    keys, spans, orders, values = [], [], [], []
    for cell in cells:
        _, length, span, order = _OF_SINGLE.unpack_from(cell)
        end = _OF_SINGLE.size + length
        keys.append(cell[_OF_SINGLE.size : end])
        spans.append(span)
        orders.append(order)
        values.append(cell[end:])
    encoded = pa.array(keys, pa.binary()).dictionary_encode()
    return (
        encoded.dictionary,
        encoded.indices.to_numpy().astype(np.int64),
        np.array(spans, np.int64),
        np.array(orders, np.int64),
        pa.array(values, pa.binary()),
    )


def _joined(found: list[_Found]) -> _Found:
    every = pa.concat_arrays([keys for keys, *_ in found]).dictionary_encode()
    numbers = every.indices.to_numpy().astype(np.int64)
    bounds = np.cumsum([0, *(len(keys) for keys, *_ in found)])
    return (
        every.dictionary,
        np.concatenate([numbers[at + some[1]] for at, some in zip(bounds, found, strict=False)]),
        np.concatenate([some[2] for some in found]),
        np.concatenate([some[3] for some in found]),
        pa.concat_arrays([some[4] for some in found]),
    )


def _firsts(sorted_numbers: npt.NDArray[Any]) -> _Places:
    """Return the starts of runs of equal numbers."""
    return np.flatnonzero(np.concatenate([[True], sorted_numbers[1:] != sorted_numbers[:-1]]))

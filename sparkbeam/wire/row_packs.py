"""Rows of accumulators in packs (:mod:`sparkbeam.wire.key_packs`).

A row may also have a *span*: rows to merge have equal key and span. So the rows of a key are spread
over several adjacent buckets. The cell of a key is span, order and value of a row.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkbeam.wire.binary import binary, bytes_of, fixed_cells, offsets_of
from sparkbeam.wire.key_packs import CellKind, CellsOfKeys, between, read, write_packs
from sparkbeam.wire.keywords import KeyWords, mixed
from sparkbeam.wire.rows import CELL_BYTES, ManyRowsWriter, Orders, Row

_OF_KEYS = 256
_OF_SPANS = 16
_TIMES = np.dtype([("span", "<i8"), ("order", "<i8")])
_NOTHING = pa.scalar(b"", pa.binary())


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
    places: npt.NDArray[np.int64]
    spans: Orders
    orders: Orders
    values: pa.Array
    until: int | None


class PackedRows:
    """Writer of rows in packs."""

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
        times = np.zeros(len(keys), _TIMES)
        times["order"] = orders
        if spans is not None:
            times["span"] = spans
        cells = pc.binary_join_element_wise(fixed_cells(times), values, _NOTHING)
        some = CellsOfKeys(keys, cells)
        buckets = _buckets(keys, times["span"])
        order = np.argsort(buckets, kind="stable")
        if some.nbytes > CELL_BYTES:
            _sort_large(order, buckets, orders, some.nbytes // len(some))
        buckets = buckets[order]
        sorted_ = some.take(order)
        write_packs(self._rows, tag, CellKind.ROW, sorted_, buckets, orders[order], buckets)


def _buckets(keys: pa.Array, spans: Orders) -> npt.NDArray[np.uint16]:
    """Return the bucket of each row."""
    hashes = KeyWords(keys).hashes(np.arange(len(keys)))
    of_span = mixed(hashes ^ spans.astype(np.uint64)) % np.uint64(_OF_SPANS)
    found = hashes % np.uint64(_OF_KEYS) * np.uint64(_OF_SPANS) + of_span
    return found.astype(np.uint16)


def _sort_large(
    order: npt.NDArray[np.int64], buckets: npt.NDArray[np.uint16], orders: Orders, size: int
) -> None:
    """Sort the rows of large buckets, which are in several packs, by their order.

    Args:
        order: the positions of rows by bucket, which is changed.
        buckets: of each row.
        orders: of each row.
        size: the bytes of a row.
    """
    counts = np.bincount(buckets)
    ends = np.cumsum(counts)
    for bucket in np.flatnonzero(counts * size > CELL_BYTES).tolist():
        part = slice(int(ends[bucket] - counts[bucket]), int(ends[bucket]))
        order[part] = order[part][np.argsort(orders[order[part]], kind="stable")]


def unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[Unpacked]:
    """Unpack batches of packs that are sorted by bucket and order."""
    for found in read(batches):
        some = found.some[CellKind.ROW]
        keys = some.keys.dictionary_encode()
        times, values = _times_and_values(some.cells)
        yield Unpacked(
            keys.dictionary,
            keys.indices.to_numpy().astype(np.int64),
            times["span"].astype(np.int64),
            times["order"].astype(np.int64),
            values,
            None if found.until is None else found.until[1],
        )


def _times_and_values(cells: pa.Array) -> tuple[npt.NDArray[Any], pa.Array]:
    """Return the spans and orders in cells, and the values behind them."""
    data, lengths = bytes_of(cells), np.diff(offsets_of(cells))
    if (lengths == lengths[0]).all() and lengths[0] > _TIMES.itemsize:
        kind = np.dtype([("times", _TIMES), ("value", f"V{lengths[0] - _TIMES.itemsize}")])
        records = data.view(kind)
        return records["times"], fixed_cells(records["value"])
    offsets = offsets_of(cells).astype(np.int64)
    starts, ends = offsets[:-1] - offsets[0], offsets[1:] - offsets[0]
    times = data[starts[:, np.newaxis] + np.arange(_TIMES.itemsize)].view(_TIMES)
    behind = np.concatenate([[0], np.cumsum(ends - starts - _TIMES.itemsize)]).astype(np.int32)
    return times.reshape(len(cells)), binary(behind, between(data, starts + _TIMES.itemsize, ends))


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

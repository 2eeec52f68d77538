"""Rows between stages, and their record batches.

Every DataFrame between stages has the same four columns. ``tag`` is the port of the row, or
:data:`METRICS_TAG` for a report that passes through all later stages. ``key`` is the partition and
sort key of an exchange by key, ``ord`` the order within a key or the target of a rebalance.
``value`` is the encoded content, in the format of the port.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkbeam.wire.heap import Heap

SCHEMA = pa.schema(
    [
        pa.field("tag", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("ord", pa.int64()),
        pa.field("value", pa.binary()),
    ]
)

Row = tuple[bytes, int, bytes]
"""Key, order and value of a row of data."""

PLAIN_CELL, BLOCK_CELL, STAMPED_CELL = b"\0", b"\1", b"\2"
"""First byte of a cell: concatenated windowed values, or a block of values.

The values of a block share their windowing, or in the third kind all of it except the timestamp.
"""

COUNT_CELL = b"\3"
"""First byte of a cell without values: the number of elements in the accumulators of a window.

Only those beyond one per accumulator are counted; for late ones, all.
"""

COLUMN_CELL = b"\4"
"""First byte of a cell with columns of values."""

TOTALS_CELL = b"\5"
"""First byte of a cell of many keys, including the key of its row."""

SPANS_CELL = b"\6"
"""First byte of a cell of many keys, each with its own window."""

METRICS_TAG = -1

AS_ELEMENT, AS_CELL = 0, 1
"""``ord`` of a side of a join: the value is encoded by its coder, or is a cell."""

JOIN_KEY_END = b"\0"
"""End of a key on a side of a join; no other row has such a key."""

BATCH_BYTES = 4 << 20
"""A batch is emitted at this many bytes of cells."""

BATCH_ROWS = 50_000
"""A batch is emitted at this many rows."""

_FEW_ROWS, _FEW_BYTES = 100, 64 << 10
_EXTEND_ROWS = 1000
_LONGEST = (1 << 31) - 1

CELL_BYTES = 1 << 20
"""Approximate size at which a run of encoded elements is cut into cells."""


Orders = npt.NDArray[np.int64]
"""Column ``ord``."""


class RowWriter(Protocol):
    """Writer of rows."""

    def append(self, tag: int, key: bytes | None, order: int, value: bytes) -> None:
        """Add a row."""

    def extend(self, tag: int, keys: list[bytes], orders: list[int], values: list[bytes]) -> None:
        """Add many rows of one port."""

    def extend_columns(self, tag: int, keys: pa.Array, orders: Orders, values: pa.Array) -> None:
        """Add many rows of one port, as columns."""


class StreamingWriter(RowWriter, Protocol):
    """Writer of rows in streaming.

    Attributes:
        firing: that of the current elements; see :mod:`sparkbeam.wire.firing_rows`.
    """

    firing: bytes

    def extend_keys(
        self, tag: int, keys: pa.Array, cell: Callable[[npt.NDArray[np.intp]], bytes]
    ) -> None:
        """Add many keys of one port, in as few rows as possible.

        Args:
            keys: binary; at least one.
            cell: returns the cell of the keys at some positions.
        """


class RowBuffer:
    """Collects rows and emits them as record batches.

    Args:
        emit: receives each full batch; may block.
        heap: the memory of the JVM that receives them; None without one.
    """

    def __init__(self, emit: Callable[[pa.RecordBatch], None], heap: Heap | None = None) -> None:
        self._emit = emit
        self._heap = heap or Heap()
        self._reset()

    def _reset(self) -> None:
        self._tags: list[int] = []
        self._keys: list[bytes | None] = []
        self._ords: list[int] = []
        self._values: list[bytes] = []
        self._bytes = 0

    def append(self, tag: int, key: bytes | None, order: int, value: bytes) -> None:
        """Add a row; may emit a batch."""
        if self._bytes + len(value) > BATCH_BYTES:
            # A single large value is not copied.
            self.flush()
        self._tags.append(tag)
        self._keys.append(key)
        self._ords.append(order)
        self._values.append(value)
        self._bytes += len(value) + (len(key) if key else 0)
        if self._bytes >= BATCH_BYTES or len(self._tags) >= BATCH_ROWS:
            self.flush()

    def extend(self, tag: int, keys: list[bytes], orders: list[int], values: list[bytes]) -> None:
        """Add many rows of one port; may emit batches."""
        for start in range(0, len(keys), _EXTEND_ROWS):
            part = slice(start, start + _EXTEND_ROWS)
            size = sum(map(len, values[part])) + sum(map(len, keys[part]))
            if size > BATCH_BYTES:
                for row in zip(keys[part], orders[part], values[part], strict=True):
                    self.append(tag, *row)
                continue
            self._tags += [tag] * len(keys[part])
            self._keys += keys[part]
            self._ords += orders[part]
            self._values += values[part]
            self._bytes += size
            if self._bytes >= BATCH_BYTES or len(self._tags) >= BATCH_ROWS:
                self.flush()

    def extend_columns(self, tag: int, keys: pa.Array, orders: Orders, values: pa.Array) -> None:
        """Add many rows of one port, as columns; emit batches, or buffer few rows."""
        if len(keys) <= _FEW_ROWS and values.nbytes <= _FEW_BYTES:
            rows = zip(keys.to_pylist(), orders.tolist(), values.to_pylist(), strict=True)
            for key, order, value in rows:
                self.append(tag, key, order, value)
            return
        self.flush()
        tags = pa.array(np.full(len(keys), tag, np.int32))
        whole = pa.record_batch([tags, keys, pa.array(orders), values], schema=SCHEMA)
        step = max(1, min(BATCH_ROWS, BATCH_BYTES * len(keys) // max(1, whole.nbytes)))
        for start in range(0, len(keys), step):
            self._emit(whole.slice(start, step))

    def flush(self) -> None:
        """Emit the remaining rows.

        Raises:
            RowTooLarge: a row is too large for the JVM.
        """
        if not self._tags:
            return
        if self._bytes > self._heap.most:
            self._heap.check(
                max(len(key or b""), len(value))
                for key, value in zip(self._keys, self._values, strict=True)
            )
        batch = pa.record_batch(
            [
                pa.array(self._tags, pa.int32()),
                pa.array(self._keys, pa.binary()),
                pa.array(self._ords, pa.int64()),
                _binary(self._values),
            ],
            schema=SCHEMA,
        )
        self._reset()
        self._emit(batch)


def tuples(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Yield key, order and value of each row; a few megabytes of them at a time."""
    for batch in batches:
        step = max(1, BATCH_BYTES * batch.num_rows // max(1, batch.nbytes))
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            yield from zip(*(column.to_pylist() for column in part.columns[1:]), strict=True)


def _binary(values: list[bytes]) -> pa.Array:
    """Return a binary array; a single value is not copied."""
    if len(values) > 1 or len(values[0]) > _LONGEST:
        return pa.array(values, pa.binary())
    ends = pa.array([0, len(values[0])], pa.int32())
    buffers = [None, ends.buffers()[1], pa.py_buffer(values[0])]
    return pa.Array.from_buffers(pa.binary(), 1, buffers)

"""The rows that travel between stages, and the batches they travel in.

Every DataFrame between stages has the same four columns:

========  ========  =====================================================
column    type      meaning
========  ========  =====================================================
``tag``   int32     the port that the row belongs to; :data:`METRICS_TAG`
                    for a report that passes through all later stages
``key``   binary    what an exchange by key partitions and sorts by
``ord``   int64     the order within a key, or the partition to rebalance to
``value`` binary    the encoded content; its form is the port's layout
========  ========  =====================================================
"""

from collections.abc import Callable
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
"""The first byte of a cell: windowed values one after the other, or a block of values.

The values of a block have the same windowing, or in the third kind all of it but the timestamp.
"""

COUNT_CELL = b"\3"
"""The first byte of a cell without values: how many elements the accumulators of a window are for.

It tells only those beyond one for each accumulator. Where they are late, all of them count.
"""

COLUMN_CELL = b"\4"
"""The first byte of a cell whose values are in columns."""

TOTALS_CELL = b"\5"
"""The first byte of a cell of many keys, which its row's key is one of."""

SPANS_CELL = b"\6"
"""The first byte of such a cell where each has a window of its own."""

EXACT_CELL = b"\7"
"""The first byte of a cell of windowed values, each followed by the microseconds that it lacks."""

METRICS_TAG = -1

AS_ELEMENT, AS_CELL = 0, 1
"""What ``ord`` says of the value on a side of a join: its coder has encoded it, or it is a cell."""

JOIN_KEY_END = b"\0"
"""What a key on a side of a join ends with, so that no other row has such a key."""

BATCH_BYTES = 4 << 20
"""A batch leaves the worker when its cells hold this many bytes."""

BATCH_ROWS = 50_000
"""A batch leaves the worker when it holds this many rows."""

_FEW_ROWS, _FEW_BYTES = 100, 64 << 10
_EXTEND_ROWS = 1000
_LONGEST = (1 << 31) - 1

CELL_BYTES = 1 << 20
"""A run of encoded elements is cut into cells of about this many bytes."""


Orders = npt.NDArray[np.int64]
"""The column ``ord``."""


class ManyRowsWriter(Protocol):
    """What sinks write to that have many rows at once."""

    def extend(self, tag: int, keys: list[bytes], orders: list[int], values: list[bytes]) -> None:
        """Adds many rows of one port."""

    def extend_columns(self, tag: int, keys: pa.Array, orders: Orders, values: pa.Array) -> None:
        """Adds many rows of one port, as columns."""


class RowWriter(ManyRowsWriter, Protocol):
    """What sinks write to."""

    def append(self, tag: int, key: bytes | None, order: int, value: bytes) -> None:
        """Adds a row."""


class FiringWriter(RowWriter, Protocol):
    """What sinks write to that knows which firing the elements of the moment belong to.

    Attributes:
        firing: see :mod:`sparkbeam.wire.firing_rows`.
    """

    firing: bytes


class KeyedWriter(RowWriter, Protocol):
    """What sinks write to that have rows of many keys in one cell."""

    def extend_keys(
        self, tag: int, keys: pa.Array, cell: Callable[[npt.NDArray[np.intp]], bytes]
    ) -> None:
        """Adds many keys of one port, in as few rows as may be.

        Args:
            tag: of the port.
            keys: binary, of which there is one at least.
            cell: makes the cell of those at some places.
        """


class RowBuffer:
    """Collects rows and hands them on as record batches.

    Args:
        emit: takes each full batch; it may block until there is room.
        heap: the memory of the JVM that gets them; None where none does.
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
        """Adds a row; may emit a batch."""
        if self._bytes + len(value) > BATCH_BYTES:
            # A large value that is alone is not copied.
            self.flush()
        self._tags.append(tag)
        self._keys.append(key)
        self._ords.append(order)
        self._values.append(value)
        self._bytes += len(value) + (len(key) if key else 0)
        if self._bytes >= BATCH_BYTES or len(self._tags) >= BATCH_ROWS:
            self.flush()

    def extend(self, tag: int, keys: list[bytes], orders: list[int], values: list[bytes]) -> None:
        """Adds many rows of one port; may emit batches."""
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
        """Adds many rows of one port, as columns; emits batches, or keeps few rows for the next."""
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
        """Emits what is left.

        Raises:
            RowTooLarge: nobody can take a row.
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


def _binary(values: list[bytes]) -> pa.Array:
    """An array of some bytes; those that are alone are not copied."""
    if len(values) > 1 or len(values[0]) > _LONGEST:
        return pa.array(values, pa.binary())
    ends = pa.array([0, len(values[0])], pa.int32())
    buffers = [None, ends.buffers()[1], pa.py_buffer(values[0])]
    return pa.Array.from_buffers(pa.binary(), 1, buffers)

"""Rows of a source, cut by :func:`sparkbeam.streaming.batch_limits.split_long_values`.

Nothing of Beam is imported here: see :mod:`sparkbeam.worker.streaming.spark_operators`.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

PIECE = "sparkbeam_piece"
"""The last column of rows in pieces: the number of the piece from 1; 0 for a whole row."""


def joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield whole rows of rows that may be in pieces.

    Args:
        batches: without the column :data:`PIECE` they are whole. Texts of the pieces of a row add
            up; its other columns are the same in each.
    """
    waiting: list[pa.RecordBatch] = []  # The pieces of one row.
    for batch in batches:
        if not batch.num_columns or batch.schema.names[-1] != PIECE:
            yield batch
            continue
        numbers = batch.column(batch.num_columns - 1).to_numpy()
        if not waiting and not numbers.any():
            yield _without_numbers(batch)
            continue
        (starts,) = np.nonzero(numbers <= 1)
        if not len(starts):
            waiting.append(batch)
            continue
        # The last row may go on in the next batch.
        end = starts[-1] if numbers[-1] else len(numbers)
        if waiting or end:
            yield _joined([*waiting, batch.slice(0, end)])
        waiting = [batch.slice(end)] if numbers[-1] else []
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of pieces, the first and the last one of which are at an end."""
    (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    numbers = batch.column(batch.num_columns - 1).to_numpy()
    (starts,) = np.nonzero(numbers <= 1)
    whole = _without_numbers(batch)
    columns = [_column(column, starts) for column in whole.columns]
    return pa.record_batch(columns, whole.schema)


def _column(pieces: pa.Array, starts: npt.NDArray[np.int64]) -> pa.Array:
    nothing = _NOTHING.get(pieces.type)
    if nothing is None:
        return pieces.take(pa.array(starts))
    bounds = pa.array(np.append(starts, len(pieces)), pa.int32())
    return pc.binary_join(pa.ListArray.from_arrays(bounds, pieces), pa.scalar(nothing, pieces.type))


_NOTHING: dict[Any, Any] = {
    pa.string(): "",
    pa.large_string(): "",
    pa.binary(): b"",
    pa.large_binary(): b"",
}


def _without_numbers(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(list(range(batch.num_columns - 1)))  # Names may be there twice.

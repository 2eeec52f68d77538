"""Rows of packs by their buckets, into which keys are divided by their hashes."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sparkbeam.wire.binary import bytes_of, offsets_of

Gathered = tuple[list[pa.RecordBatch], pa.RecordBatch | None]
"""Parts of batches, and the next part if their last bucket continues in it."""


def gathered(batches: Iterator[pa.RecordBatch], whole: int, most: int) -> Iterator[Gathered]:
    """Gather batches of rows that are sorted by bucket and order.

    Args:
        batches: the batches, with bucket, order and value in the columns 1 to 3.
        whole: the number of bytes of whole buckets to gather.
        most: the number of bytes from which a bucket is divided.
    """
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        for part in _parts(batch, whole):
            is_whole = bool(waiting) and waiting[-1].column(1)[-1] != part.column(1)[0]
            if waiting and size >= (whole if is_whole else max(whole, most)):
                yield waiting, None if is_whole else part
                waiting, size = [], 0
            waiting.append(part)
            size += part.nbytes
    if waiting:
        yield waiting, None


def _parts(batch: pa.RecordBatch, whole: int) -> Iterator[pa.RecordBatch]:
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
        stop = int(np.searchsorted(ends, before + whole, "right"))
        last_bound = int(bounds[np.searchsorted(bounds, stop, "right") - 1])
        stop = last_bound if last_bound > start else max(stop, start + 1)
        yield batch.slice(start, stop - start)
        start = stop

"""Columns of the Parquet files of a ``ReadFromSpark``, equal to those that Spark would give."""

import os
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from sparkbeam.wire.parquet_splits import FilePart, ParquetFiles
from sparkbeam.wire.timestamps import MIN_MICROS


def batches_of(files: ParquetFiles, share: int) -> Iterator[pa.RecordBatch]:
    """Yield the columns of the rows of a share, and behind them the timestamps in microseconds.

    Args:
        files: all files of the source.

    Raises:
        OSError: a file has gone, or is not the one any more that the driver has looked at.
        pa.ArrowException: a file is damaged.
    """
    for part in files.shares[share]:
        for read in _read(part, files.schema):
            yield _ordered(read, files)


def _read(part: FilePart, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(part.path) as opened:
        found = os.stat(part.path)
        if found.st_size != part.size or part.modified not in (None, found.st_mtime_ns):
            raise OSError(f"the file has changed since the pipeline was started: {part.path}")
        file = pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")
        # Each core has a task of its own.
        batches = file.iter_batches(
            part.rows, list(part.row_groups), list(schema.names), use_threads=False
        )
        yield from _between(batches, part.start, part.stop)


def _between(batches: Iterable[pa.RecordBatch], start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows from one to before another; nothing is read behind them."""
    before = 0
    for batch in batches:
        first, before = before, before + batch.num_rows
        if before > start:
            skipped = max(0, start - first)
            yield batch.slice(skipped, min(before, stop) - first - skipped)
        if before >= stop:
            return


def _ordered(read: pa.RecordBatch, files: ParquetFiles) -> pa.RecordBatch:
    columns = [
        # Times of both have the same numbers, whichever zone their types tell.
        read.column(name).view(files.schema.field(name).type)
        for name in files.output
    ]
    if files.time is None:
        times = pa.repeat(pa.scalar(MIN_MICROS, pa.int64()), read.num_rows)
    else:
        times = read.column(files.time).view(pa.int64())
    return pa.RecordBatch.from_arrays([*columns, times], [*files.output, "time"])

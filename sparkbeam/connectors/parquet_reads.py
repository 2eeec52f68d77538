"""Parquet files that workers read in place of a DataFrame of ``ReadFromSpark``.

Passing rows from Spark's JVM to Python takes longer than reading them. Spark reads them whenever
the result might differ: see :mod:`sparkbeam.connectors.parquet_equality`. On a cluster, Spark
itself needs each file of a local path under this path on the driver and on each worker.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, groupby
from math import ceil
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from sparkbeam.common.parquet_footers import BATCH_BYTES, BATCH_ROWS, in_threads, row_groups
from sparkbeam.connectors.parquet_equality import (
    arrow_schema,
    is_unchanged,
    positions_read_alike,
    reads_with_defaults,
)
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.spark import session as sessions
from sparkbeam.spark.capabilities import effective_setting
from sparkbeam.upstream.scans import (
    ParquetScan,
    ScannedColumn,
    ScannedFile,
    parquet_scan,
    same_session,
    sql_settings,
    task_bytes,
)
from sparkbeam.upstream.spark import is_connect
from sparkbeam.wire.parquet_splits import FilePart, ParquetFiles

_LEAST_TASKS = "spark.sql.files.minPartitionNum"
_ZONE = "spark.sql.session.timeZone"

_TASKS_PER_ROW_GROUP = 2
"""Maximum average number of tasks per row group."""

_LEAST_CHANGE = 10
"""A row group is split only if a task's share would otherwise change by one part in this many."""

_SizedPart: TypeAlias = tuple[FilePart, int]
"""A row group, with its bytes."""


def parquet_files(
    session: Any, frame: Callable[[], Any], spec: ReadSpec, *, tables: bool = True
) -> ParquetFiles | None:
    """Return the files that workers read instead of a DataFrame; None if Spark reads them.

    Args:
        frame: makes the DataFrame of :func:`sparkbeam.connectors.source_frames.timed`, of whose
            plan the files are.
        spec: of the source; only columns used by the pipeline are read.
        tables: the files may belong to a catalog table.
    """
    if not spec.in_columns or spec.inputs is not None or is_connect(session):
        return None
    settings = sql_settings(session)
    if not reads_with_defaults(session, settings):
        return None
    rows = frame()
    scan = parquet_scan(rows) if same_session(session, rows.sparkSession) else None
    if scan is None or not scan.files or (scan.is_table and not tables):
        return None
    columns = _columns(scan, spec)
    zone = settings.get(_ZONE) or effective_setting(session, _ZONE)
    if columns is None or zone is None:
        return None
    types = {column.name: column.type for column in columns if column is not None}
    schema = arrow_schema(types, zone)
    if schema is None:
        return None
    # Machines of a cluster may have copies of the files.
    parts_of = partial(_parts, types=types, is_local=sessions.is_local(session))
    found = in_threads(parts_of, scan.files)
    parts = [*chain.from_iterable(parts or () for parts in found)]
    if None in found or not parts:
        return None
    # About as many tasks as Spark would have.
    cores, least = sessions.cores(session), settings.get(_LEAST_TASKS, "")
    size = sum(file.size for file in scan.files)
    needed = max(-(-size // task_bytes(session)), int(least) if least.isdecimal() else 1)
    tasks = cores * -(-needed // cores)
    if spec.is_compiled:  # The overhead of a task exceeds the time for a batch of rows.
        tasks = min(tasks, max(needed, ceil(sum(part.stop / part.rows for part, _ in parts))))
    *output, time = columns
    return ParquetFiles(
        schema,
        None if time is None else time.name,
        tuple(column.name for column in output if column is not None),
        divided(parts, tasks),
    )


def _columns(scan: ParquetScan, spec: ReadSpec) -> list[ScannedColumn | None] | None:
    """Return the columns that are used, followed by the time column or None.

    None if they are not stored in the files as such.
    """
    *columns, time = scan.columns
    if any(column is None or column.in_micros for column in columns):
        return None
    if spec.timestamp_column is not None:
        if time is None or not time.in_micros or time.type != "timestamp":
            return None
    elif time is not None:
        return None
    wanted = spec.of_files().read
    chosen = [c for c, name in zip(columns, spec.read, strict=True) if name in wanted]
    return [*chosen, time]


def _parts(
    scanned: ScannedFile, types: Mapping[str, str], *, is_local: bool
) -> list[_SizedPart] | None:
    """Return a part for each non-empty row group of a file; None if Spark must read it."""
    try:
        with pa.OSFile(scanned.path) as opened:
            stat = os.stat(scanned.path)
            if not is_unchanged(scanned, stat):
                return None
            file = pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")
            read = positions_read_alike(file, types)
            if read is None:
                return None
            sizes = [
                (group.num_rows, sum(group.column(at).total_uncompressed_size for at in read))
                for group in row_groups(file)
            ]
    except (OSError, ValueError, pa.ArrowException):
        return None
    modified = stat.st_mtime_ns if is_local else None
    parts = []
    for at, (rows, size) in enumerate(sizes):
        if rows:
            batch = max(1, min(BATCH_ROWS, BATCH_BYTES * rows // max(1, size)))
            part = FilePart(scanned.path, stat.st_size, modified, (at,), 0, rows, batch)
            parts.append((part, max(rows, size)))
    return parts


def divided(parts: list[_SizedPart], tasks: int) -> tuple[tuple[FilePart, ...], ...]:
    """Divide files among tasks by contiguous shares, as adjacent rows are often close in time.

    Args:
        parts: one per row group, with its bytes.
        tasks: the maximum number of shares.
    """
    tasks = min(tasks, _TASKS_PER_ROW_GROUP * len(parts))
    whole = sum(size for _, size in parts)
    shares: list[list[FilePart]] = [[]]
    before, number = 0, 1
    for part, size in parts:
        start = 0
        while number < tasks and number * whole < tasks * (before + size):
            end = _end(part, size * tasks, number * whole - before * tasks, whole)
            if end > start:
                shares[-1].append(replace(part, start=start, stop=end))
            shares.append([])
            start, number = end, number + 1
        if start < part.stop:
            shares[-1].append(replace(part, start=start))
        before += size
    return tuple(tuple(_joined(share)) for share in shares if share)


def _end(part: FilePart, size: int, at: int, share: int) -> int:
    """Return the row of a row group at which a task ends.

    The next task decodes the rows before it as well, so most row groups stay whole.

    Args:
        at: the part of this size that would belong to the task.
    """
    row = part.stop * at // size
    if min(row, part.stop - row) >= part.rows and _LEAST_CHANGE * min(at, size - at) >= share:
        return row
    return part.stop if 2 * at > size else 0


def _joined(parts: list[FilePart]) -> Iterator[FilePart]:
    """Merge parts of the same file."""
    for _, found in groupby(parts, lambda part: part.path):
        same = list(found)
        yield replace(
            same[0],
            row_groups=tuple(at for part in same for at in part.row_groups),
            stop=sum(part.stop for part in same),
            rows=min(part.rows for part in same),
        )

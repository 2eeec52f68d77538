"""DataFrames of ``ReadFromSpark`` that are only Parquet columns, which workers read directly.

Passing rows from Spark's JVM to Python takes longer than reading them. Spark reads them whenever
the result might differ: see :mod:`sparkbeam.connectors.footers`. On a cluster, Spark itself needs
each file of a local path under this path on the driver and on each worker.
"""

import os
from collections.abc import Callable, Container, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import ceil
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sparkbeam.connectors.footers import arrow_type, is_read_alike
from sparkbeam.connectors.row_ranges import divided
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.plan.volumes import BATCH_BYTES, BATCH_ROWS
from sparkbeam.spark import session as sessions
from sparkbeam.spark.capabilities import effective_setting
from sparkbeam.upstream.scans import (
    ParquetScan,
    ScannedColumn,
    ScannedFile,
    hadoop_setting,
    parquet_scan,
    same_session,
    sql_settings,
    task_bytes,
)
from sparkbeam.upstream.spark import is_connect, version
from sparkbeam.wire.parquet_splits import FilePart, ParquetFiles

_AT_ONCE = 16

_CLOSED_TOGETHER = 1_000_000_000
"""A file may be closed this many nanoseconds after its checksums."""

_LEAST_TASKS = "spark.sql.files.minPartitionNum"

_ZONE = "spark.sql.session.timeZone"
_CRYPTO = "parquet.crypto.factory.class"

_ABOUT_FILES = (
    "parquet.",
    "spark.hadoop.parquet.",
    "spark.sql.files.",
    "spark.sql.legacy.parquet.",
    "spark.sql.parquet.",
)
"""Prefixes of settings that may change the result."""

_HARMLESS = frozenset(
    [
        "spark.sql.files.maxPartitionBytes",
        "spark.sql.files.maxPartitionNum",
        "spark.sql.files.maxRecordsPerFile",
        "spark.sql.files.minPartitionNum",
        "spark.sql.files.openCostInBytes",
        "spark.sql.parquet.aggregatePushdown",
        "spark.sql.parquet.columnarReaderBatchSize",
        "spark.sql.parquet.compression.codec",
        "spark.sql.parquet.datetimeRebaseModeInWrite",
        "spark.sql.parquet.enableNestedColumnVectorizedReader",
        "spark.sql.parquet.enableVectorizedReader",
        "spark.sql.parquet.fieldId.write.enabled",
        "spark.sql.parquet.filterPushdown",
        "spark.sql.parquet.filterPushdown.date",
        "spark.sql.parquet.filterPushdown.decimal",
        "spark.sql.parquet.filterPushdown.string.startsWith",
        "spark.sql.parquet.filterPushdown.stringPredicate",
        "spark.sql.parquet.filterPushdown.timestamp",
        "spark.sql.parquet.inferTimestampNTZ.enabled",
        "spark.sql.parquet.int96RebaseModeInWrite",
        "spark.sql.parquet.mergeSchema",
        "spark.sql.parquet.output.committer.class",
        "spark.sql.parquet.outputTimestampType",
        "spark.sql.parquet.pushdown.inFilterThreshold",
        "spark.sql.parquet.recordLevelFilter.enabled",
        "spark.sql.parquet.respectSummaryFiles",
        "spark.sql.parquet.writeLegacyFormat",
    ]
)

_KNOWN = {
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "corrected",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.int96RebaseModeInRead": "corrected",
    "spark.sql.parquet.int96TimestampConversion": "false",
}
"""Required values of settings, with which Arrow reads the same as Spark."""

_CORRECTED_FROM = (4, 0)
"""Since this version Spark assumes the new calendar by default."""


def parquet_files(
    session: Any, frame: Callable[[], Any], spec: ReadSpec, *, tables: bool = True
) -> ParquetFiles | None:
    """Return the files that workers can read instead of a DataFrame; None if Spark must.

    Args:
        session: of the pipeline.
        frame: makes the DataFrame of :func:`sparkbeam.connectors.source_frames.timed`, of whose
            plan the files are.
        spec: of the source; only columns used by the pipeline are read.
        tables: the files may belong to a catalog table.
    """
    if not spec.in_columns or is_connect(session):
        return None
    settings = sql_settings(session)
    if not _are_known(settings) or hadoop_setting(session, _CRYPTO) is not None:
        return None
    scan = _scan_of(session, frame())
    if scan is None or not scan.files or (scan.is_table and not tables):
        return None
    columns = _columns(scan, spec)
    if columns is None:
        return None
    *output, time = columns
    types = {column.name: column.type for column in columns if column is not None}
    zone = settings.get(_ZONE) or effective_setting(session, _ZONE)
    kinds = {name: arrow_type(kind, zone) for name, kind in types.items() if zone is not None}
    if zone is None or None in kinds.values():
        return None
    parts = _parts(scan, types, new_calendar=version() >= _CORRECTED_FROM)
    if not sessions.is_local(session):
        # Machines may have copies of the files, which Spark reads.
        parts = [(replace(part, modified=None), size) for part, size in parts]
    if not parts:
        return None
    return ParquetFiles(
        pa.schema(kinds.items()),
        None if time is None else time.name,
        tuple(column.name for column in output if column is not None),
        divided(parts, _tasks(session, settings, parts, scan, at_least_a_batch=spec.is_compiled)),
    )


def _scan_of(session: Any, frame: Any) -> ParquetScan | None:
    return parquet_scan(frame) if same_session(session, frame.sparkSession) else None


def _are_known(settings: Mapping[str, str]) -> bool:
    """Return whether the session reads files with Spark's defaults."""
    if "spark.master" not in settings:
        return False
    return all(
        value.strip().lower() == _KNOWN[name]
        if name in _KNOWN
        else name in _HARMLESS or not name.startswith(_ABOUT_FILES)
        for name, value in settings.items()
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
    scan: ParquetScan, types: dict[str, str], *, new_calendar: bool
) -> list[tuple[FilePart, int]]:
    """Return a part for each row group, with its bytes; empty if Spark must read a file."""

    def row_groups(file: ScannedFile) -> list[tuple[FilePart, int]] | None:
        return _row_groups(file, types, new_calendar=new_calendar)

    with ThreadPoolExecutor(min(_AT_ONCE, len(scan.files))) as pool:
        found = [*pool.map(row_groups, scan.files)]
    return [] if None in found else [part for parts in found for part in parts or ()]


def _row_groups(
    scanned: ScannedFile, types: dict[str, str], *, new_calendar: bool
) -> list[tuple[FilePart, int]] | None:
    """Return a part for each non-empty row group of a file; None if Spark must read it."""
    try:
        with pa.OSFile(scanned.path) as opened:
            stat = os.stat(scanned.path)
            if stat.st_size != scanned.size or stat.st_mtime_ns // 1_000_000 != scanned.modified:
                return None
            if not _is_as_checked(scanned.path, stat):
                return None
            file = pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")
            if not is_read_alike(file, types, new_calendar=new_calendar):
                return None
            sizes = [
                (group.num_rows, sum(_sizes(group, types)))
                for group in map(file.metadata.row_group, range(file.num_row_groups))
            ]
    except (OSError, ValueError, pa.ArrowException):
        return None
    return [
        (
            FilePart(
                scanned.path,
                stat.st_size,
                stat.st_mtime_ns,
                (at,),
                0,
                rows,
                max(1, min(BATCH_ROWS, BATCH_BYTES * rows // max(1, size))),
            ),
            max(rows, size),
        )
        for at, (rows, size) in enumerate(sizes)
        if rows
    ]


def _sizes(group: Any, names: Container[str]) -> Iterator[int]:
    """Yield the bytes of some columns of a row group."""
    for column in map(group.column, range(group.num_columns)):
        if column.path_in_schema in names:
            yield column.total_uncompressed_size


def _is_as_checked(path: str, stat: os.stat_result) -> bool:
    """Return whether Hadoop's checksums of a file, if any, can be those of its current content.

    Otherwise Spark does not read the file.
    """
    folder, name = os.path.split(path)
    try:
        sums = os.stat(os.path.join(folder, f".{name}.crc"))
    except FileNotFoundError:
        return True
    # One per 512 bytes, after an 8-byte header, and both files are closed together.
    is_as_long = sums.st_size == 8 + 4 * -(-stat.st_size // 512)
    return is_as_long and stat.st_mtime_ns <= sums.st_mtime_ns + _CLOSED_TOGETHER


def _tasks(
    session: Any,
    settings: Mapping[str, str],
    parts: list[tuple[FilePart, int]],
    scan: ParquetScan,
    *,
    at_least_a_batch: bool,
) -> int:
    """Return the number of tasks that read the files, similar to Spark's.

    Args:
        session: of the pipeline.
        settings: of the session.
        parts: the row groups, with their bytes.
        scan: the files.
        at_least_a_batch: the overhead of a task exceeds the time for a batch of rows.
    """
    cores, least = sessions.cores(session), settings.get(_LEAST_TASKS, "")
    size = sum(file.size for file in scan.files)
    needed = max(-(-size // task_bytes(session)), int(least) if least.isdecimal() else 1)
    tasks = cores * -(-needed // cores)
    if not at_least_a_batch:
        return tasks
    return min(tasks, max(needed, ceil(sum(part.stop / part.rows for part, _ in parts))))

"""DataFrames that are nothing but columns of Parquet files: workers read those themselves.

To hand rows from Spark's JVM to Python takes longer than to read them. That is left to Spark
wherever something else could come out: see :mod:`sparkbeam.connectors.footers`.
"""

import os
from collections.abc import Callable, Container, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sparkbeam.connectors.footers import arrow_type, is_read_alike
from sparkbeam.connectors.plain_folders import plain_scan
from sparkbeam.connectors.row_ranges import divided
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.plan.volumes import BATCH_BYTES, BATCH_ROWS
from sparkbeam.spark import session as sessions
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
from sparkbeam.upstream.spark import version
from sparkbeam.wire.parquet_splits import FilePart, ParquetFiles

_AT_ONCE = 16

_CLOSED_TOGETHER = 1_000_000_000
"""So many nanoseconds after its checksums a file may be closed."""

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
"""What the names of settings begin with that may change what is read."""

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
"""Values of others with which Arrow reads the same as Spark."""

_CORRECTED_FROM = (4, 0)
"""Since then Spark takes it that dates and times are of the new calendar if nothing is said."""


def parquet_files(
    session: Any, frame: Callable[[], Any], spec: ReadSpec, *, tables: bool = True
) -> ParquetFiles | None:
    """The files that workers read in place of a DataFrame; None where Spark has to read it.

    Args:
        session: that the pipeline runs on.
        frame: makes that of :func:`sparkbeam.connectors.source_frames.timed`, for which Spark is
            asked where it is not plain without it what there is.
        spec: what it reads; of the files those columns are read that somebody looks at.
        tables: the files may be those of a table of the catalog's.
    """
    if not spec.in_columns or not sessions.is_local(session):
        return None
    settings = sql_settings(session)
    if not _are_known(settings) or hadoop_setting(session, _CRYPTO) is not None:
        return None
    scan = plain_scan(session, spec, settings) or _scan_of(session, frame())
    if scan is None or not scan.files or (scan.is_table and not tables):
        return None
    columns = _columns(scan, spec)
    if columns is None:
        return None
    *output, time = columns
    types = {column.name: column.type for column in columns if column is not None}
    zone = settings.get(_ZONE) or session.conf.get(_ZONE)
    kinds = {name: arrow_type(kind, zone) for name, kind in types.items()}
    if None in kinds.values():
        return None
    parts = _parts(scan, types, new_calendar=version() >= _CORRECTED_FROM)
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
    """Whether Spark reads files as it does if nothing is said."""
    if "spark.master" not in settings:
        return False
    return all(
        value.strip().lower() == _KNOWN[name]
        if name in _KNOWN
        else name in _HARMLESS or not name.startswith(_ABOUT_FILES)
        for name, value in settings.items()
    )


def _columns(scan: ParquetScan, spec: ReadSpec) -> list[ScannedColumn | None] | None:
    """The columns that somebody looks at, and behind them the time, which may be None.

    None where they are not as they are in the files.
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
    """A part for each row group, with its bytes; none where Spark has to read a file."""

    def look(file: ScannedFile) -> list[tuple[FilePart, int]] | None:
        return _row_groups(file, types, new_calendar=new_calendar)

    with ThreadPoolExecutor(min(_AT_ONCE, len(scan.files))) as pool:
        found = [*pool.map(look, scan.files)]
    return [] if None in found else [part for parts in found for part in parts or ()]


def _row_groups(
    scanned: ScannedFile, types: dict[str, str], *, new_calendar: bool
) -> list[tuple[FilePart, int]] | None:
    """A part for each row group of a file that has rows; None where Spark has to read it."""
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
    """The bytes of some columns of a row group."""
    for column in map(group.column, range(group.num_columns)):
        if column.path_in_schema in names:
            yield column.total_uncompressed_size


def _is_as_checked(path: str, stat: os.stat_result) -> bool:
    """Whether the checksums that Hadoop keeps of a file, if any, may be of what is in it now.

    Spark does not read it otherwise.
    """
    folder, name = os.path.split(path)
    try:
        sums = os.stat(os.path.join(folder, f".{name}.crc"))
    except FileNotFoundError:
        return True
    # There is one for each 512 bytes, behind eight bytes that say so, and both are closed together.
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
    """In how many tasks files are read, as far as they have rows for them: about as Spark does it.

    Args:
        session: that the pipeline runs on.
        settings: of it.
        parts: the row groups, with their bytes.
        scan: the files.
        at_least_a_batch: a task of less than a batch of rows takes longer to begin than to run.
    """
    cores, least = sessions.cores(session), settings.get(_LEAST_TASKS, "")
    size = sum(file.size for file in scan.files)
    needed = max(-(-size // task_bytes(session)), int(least) if least.isdecimal() else 1)
    tasks = cores * -(-needed // cores)
    if not at_least_a_batch:
        return tasks
    return min(tasks, max(needed, ceil(sum(part.stop / part.rows for part, _ in parts))))

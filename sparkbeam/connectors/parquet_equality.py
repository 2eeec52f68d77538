"""Parquet files that Spark and Arrow certainly read equally.

Spark reads more than that: types as wider ones, missing columns as nulls, dates of the old calendar
as dates of the new one. All of this is left to Spark.
"""

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sparkbeam.common.parquet_footers import row_groups
from sparkbeam.upstream.scans import ScannedFile, hadoop_setting
from sparkbeam.upstream.spark import version

_ABOUT_FILES = (
    "parquet.",
    "spark.hadoop.parquet.",
    "spark.sql.files.",
    "spark.sql.legacy.parquet.",
    "spark.sql.parquet.",
)
"""Prefixes of settings that may change the result."""

_HARMLESS = frozenset(
    """
    spark.sql.files.maxPartitionBytes spark.sql.files.maxPartitionNum
    spark.sql.files.maxRecordsPerFile spark.sql.files.minPartitionNum
    spark.sql.files.openCostInBytes spark.sql.parquet.aggregatePushdown
    spark.sql.parquet.columnarReaderBatchSize spark.sql.parquet.compression.codec
    spark.sql.parquet.datetimeRebaseModeInWrite
    spark.sql.parquet.enableNestedColumnVectorizedReader
    spark.sql.parquet.enableVectorizedReader spark.sql.parquet.fieldId.write.enabled
    spark.sql.parquet.filterPushdown spark.sql.parquet.filterPushdown.date
    spark.sql.parquet.filterPushdown.decimal spark.sql.parquet.filterPushdown.string.startsWith
    spark.sql.parquet.filterPushdown.stringPredicate spark.sql.parquet.filterPushdown.timestamp
    spark.sql.parquet.inferTimestampNTZ.enabled spark.sql.parquet.int96RebaseModeInWrite
    spark.sql.parquet.mergeSchema spark.sql.parquet.output.committer.class
    spark.sql.parquet.outputTimestampType spark.sql.parquet.pushdown.inFilterThreshold
    spark.sql.parquet.recordLevelFilter.enabled spark.sql.parquet.respectSummaryFiles
    spark.sql.parquet.writeLegacyFormat
    """.split()
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

_CRYPTO = "parquet.crypto.factory.class"

_STRING, _NONE = {"Type": "String"}, {"Type": "None"}


def _integer(bits: int) -> dict[str, Any]:
    return {"Type": "Int", "bitWidth": bits, "isSigned": True}


def _micros(*, utc: bool) -> dict[str, Any]:
    return {"Type": "Timestamp", "isAdjustedToUTC": utc, "timeUnit": "microseconds"}


class _Type(NamedTuple):
    """A type that Spark and Arrow read without any conversion.

    Attributes:
        arrow: the type in which Spark passes on a column, but for a time zone.
        stored: the physical and logical types in files.
    """

    arrow: pa.DataType
    stored: tuple[tuple[str, dict[str, Any]], ...]


_TYPES = {
    "boolean": _Type(pa.bool_(), (("BOOLEAN", _NONE),)),
    "byte": _Type(pa.int8(), (("INT32", _integer(8)),)),
    "short": _Type(pa.int16(), (("INT32", _integer(16)),)),
    "integer": _Type(pa.int32(), (("INT32", _NONE), ("INT32", _integer(32)))),
    "long": _Type(pa.int64(), (("INT64", _NONE), ("INT64", _integer(64)))),
    "float": _Type(pa.float32(), (("FLOAT", _NONE),)),
    "double": _Type(pa.float64(), (("DOUBLE", _NONE),)),
    "string": _Type(pa.string(), (("BYTE_ARRAY", _STRING),)),
    "binary": _Type(pa.binary(), (("BYTE_ARRAY", _NONE),)),
    "date": _Type(pa.date32(), (("INT32", {"Type": "Date"}),)),
    "timestamp": _Type(pa.timestamp("us"), (("INT96", _NONE), ("INT64", _micros(utc=True)))),
    "timestamp_ntz": _Type(pa.timestamp("us"), (("INT64", _micros(utc=False)),)),
}

_DATED = frozenset(["date", "timestamp", "timestamp_ntz"])
KINDS = frozenset(_TYPES)
"""Spark types, by their JSON names, of columns that are certainly read equally."""

_CODECS = frozenset(["UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"])

_WRITTEN_BY = b"org.apache.spark.version"
_OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_NEW_CALENDAR_FROM = (3, 1)
"""Earlier versions of Spark wrote some times in the old calendar without marking them."""
_CORRECTED_FROM = (4, 0)
"""Since this version Spark assumes the new calendar for files of an unknown writer."""

_CLOSED_TOGETHER = 1_000_000_000
"""A file may be closed this many nanoseconds after its checksums."""


def reads_with_defaults(session: Any, settings: Mapping[str, str]) -> bool:
    """Return whether a session reads files with Spark's defaults."""
    return (
        "spark.master" in settings
        and all(
            value.strip().lower() == _KNOWN[name]
            if name in _KNOWN
            else name in _HARMLESS or not name.startswith(_ABOUT_FILES)
            for name, value in settings.items()
        )
        and hadoop_setting(session, _CRYPTO) is None
    )


def arrow_schema(types: Mapping[str, str], zone: str) -> pa.Schema | None:
    """Return the Arrow schema in which Spark passes on columns, or None if unknown.

    Args:
        types: Spark types by their JSON names, by column.
    """
    if not KINDS.issuperset(types.values()):
        return None
    return pa.schema(
        (name, pa.timestamp("us", zone) if kind == "timestamp" else _TYPES[kind].arrow)
        for name, kind in types.items()
    )


def is_unchanged(scanned: ScannedFile, stat: os.stat_result) -> bool:
    """Return whether a file is the one that Spark has found, with the checksums of its content.

    Spark reads no file whose checksums, if any, are those of another content.
    """
    if stat.st_size != scanned.size or stat.st_mtime_ns // 1_000_000 != scanned.modified:
        return False
    folder, name = os.path.split(scanned.path)
    try:
        sums = os.stat(os.path.join(folder, f".{name}.crc"))
    except FileNotFoundError:
        return True
    # One per 512 bytes, after an 8-byte header, and both files are closed together.
    is_as_long = sums.st_size == 8 + 4 * -(-stat.st_size // 512)
    return is_as_long and stat.st_mtime_ns <= sums.st_mtime_ns + _CLOSED_TOGETHER


def positions_read_alike(file: pq.ParquetFile, types: Mapping[str, str]) -> list[int] | None:
    """Return the positions of columns of a file; None unless Spark and Arrow read them equally.

    Args:
        file: with 96-bit times as microseconds.
        types: Spark types by their JSON names, by column.
    """
    schema, names = file.schema, file.schema_arrow.names
    if len({name.lower() for name in names}) < len(names) or any("." in name for name in types):
        return None
    places = {schema.column(at).path: at for at in range(len(schema))}
    if not types.keys() <= places.keys():
        return None
    calendar = _calendar(file)
    found = [places[name] for name in types]
    is_alike = all(
        _is_alike(schema.column(places[name]), file.schema_arrow.field(name).type, kind)
        and (kind not in _DATED or _is_new(calendar, schema.column(places[name])))
        for name, kind in types.items()
    ) and all(group.column(at).compression in _CODECS for group in row_groups(file) for at in found)
    return found if is_alike else None


def _is_alike(column: Any, arrow: pa.DataType, kind: str) -> bool:
    """Return whether a column has a Spark type without any conversion."""
    logical = json.loads(column.logical_type.to_json())
    stored = {name: logical[name] for name in _NAMES if name in logical}
    if column.max_repetition_level or column.max_definition_level > 1:
        return False
    is_same = arrow.unit == "us" if pa.types.is_timestamp(arrow) else arrow == _TYPES[kind].arrow
    return is_same and (column.physical_type, stored) in _TYPES[kind].stored


_NAMES = ("Type", "bitWidth", "isSigned", "isAdjustedToUTC", "timeUnit")


def _calendar(file: pq.ParquetFile) -> bool | None:
    """Return whether a file certainly uses the new calendar; None if unknown."""
    told = file.metadata.metadata or {}
    writer = told.get(_WRITTEN_BY)
    if writer is None:
        return None
    numbers = [int(part) for part in writer.decode().split(".")[:2] if part.isdigit()]
    return tuple(numbers) >= _NEW_CALENDAR_FROM and not any(key in told for key in _OLD_CALENDAR)


def _is_new(calendar: bool | None, column: Any) -> bool:
    if calendar is not None:
        return calendar
    # 96-bit times of other writers may exceed a day.
    return version() >= _CORRECTED_FROM and column.physical_type != "INT96"

"""Parquet columns that Spark and Arrow certainly read equally.

Spark reads more than that: types as wider ones, missing columns as nulls, dates of the old calendar
as dates of the new one. All of this is left to Spark.
"""

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_STRING, _NONE = {"Type": "String"}, {"Type": "None"}


def _integer(bits: int) -> dict[str, Any]:
    return {"Type": "Int", "bitWidth": bits, "isSigned": True}


def _micros(*, utc: bool) -> dict[str, Any]:
    return {"Type": "Timestamp", "isAdjustedToUTC": utc, "timeUnit": "microseconds"}


_PHYSICAL: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "boolean": (("BOOLEAN", _NONE),),
    "byte": (("INT32", _integer(8)),),
    "short": (("INT32", _integer(16)),),
    "integer": (("INT32", _NONE), ("INT32", _integer(32))),
    "long": (("INT64", _NONE), ("INT64", _integer(64))),
    "float": (("FLOAT", _NONE),),
    "double": (("DOUBLE", _NONE),),
    "string": (("BYTE_ARRAY", _STRING),),
    "binary": (("BYTE_ARRAY", _NONE),),
    "date": (("INT32", {"Type": "Date"}),),
    "timestamp": (("INT96", _NONE), ("INT64", _micros(utc=True))),
    "timestamp_ntz": (("INT64", _micros(utc=False)),),
}
"""Physical and logical Parquet types that need no conversion, by Spark type."""

_ARROW = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"),
}

_DATED = frozenset(["date", "timestamp", "timestamp_ntz"])
KINDS = frozenset(_PHYSICAL)
"""Spark types, by their JSON names, of columns that are certainly read equally."""

_CODECS = frozenset(["UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"])

_WRITTEN_BY = b"org.apache.spark.version"
_OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_NEW_CALENDAR_FROM = (3, 1)
"""Earlier versions of Spark wrote some times in the old calendar without marking them."""


def arrow_type(kind: str, zone: str) -> pa.DataType | None:
    """Return the Arrow type in which Spark passes on a column, or None if unknown.

    Args:
        kind: the Spark type by its JSON name.
        zone: the time zone of the session.
    """
    return pa.timestamp("us", zone) if kind == "timestamp" else _ARROW.get(kind)


def is_read_alike(file: pq.ParquetFile, types: dict[str, str], *, new_calendar: bool) -> bool:
    """Return whether Spark and Arrow read the columns of a file equally.

    Args:
        file: with 96-bit times as microseconds.
        types: Spark types by their JSON names, by column.
        new_calendar: Spark assumes the new calendar for a file of an unknown writer.
    """
    schema, names = file.schema, file.schema_arrow.names
    if len({name.lower() for name in names}) < len(names) or any("." in name for name in types):
        return False
    places = {schema.column(at).path: at for at in range(len(schema))}
    if not types.keys() <= places.keys():
        return False
    calendar = _calendar(file)
    return all(
        _is_alike(schema.column(places[name]), file.schema_arrow.field(name).type, kind)
        and (kind not in _DATED or _is_new(calendar, schema.column(places[name]), new_calendar))
        for name, kind in types.items()
    ) and all(
        file.metadata.row_group(number).column(places[name]).compression in _CODECS
        for number in range(file.num_row_groups)
        for name in types
    )


def _is_alike(column: Any, arrow: pa.DataType, kind: str) -> bool:
    """Return whether a column has a Spark type without any conversion."""
    logical = json.loads(column.logical_type.to_json())
    told = {name: logical[name] for name in _NAMES if name in logical}
    if column.max_repetition_level or column.max_definition_level > 1:
        return False
    if pa.types.is_timestamp(arrow):
        return arrow.unit == "us" and (column.physical_type, told) in _PHYSICAL[kind]
    return arrow == _ARROW.get(kind) and (column.physical_type, told) in _PHYSICAL[kind]


_NAMES = ("Type", "bitWidth", "isSigned", "isAdjustedToUTC", "timeUnit")


def _calendar(file: pq.ParquetFile) -> bool | None:
    """Return whether a file certainly uses the new calendar; None if unknown."""
    told = file.metadata.metadata or {}
    version = told.get(_WRITTEN_BY)
    if version is None:
        return None
    numbers = [int(part) for part in version.decode().split(".")[:2] if part.isdigit()]
    return tuple(numbers) >= _NEW_CALENDAR_FROM and not any(key in told for key in _OLD_CALENDAR)


def _is_new(calendar: bool | None, column: Any, otherwise: bool) -> bool:
    if calendar is not None:
        return calendar
    # 96-bit times of other writers may exceed a day.
    return otherwise and column.physical_type != "INT96"

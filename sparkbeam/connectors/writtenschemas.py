"""The schemas that Spark writes into Parquet files, read without the job in which Spark reads them.

Spark asks one file for the columns of all. That is done here where it is plain which file that is,
and that it tells all; everything else is left to Spark.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import StructField, StructType

from sparkbeam import session as sessions
from sparkbeam.connectors.footers import KINDS
from sparkbeam.connectors.storage import from_here
from sparkbeam.plan.sparkio import ReadSpec
from sparkbeam.upstream.scans import hadoop_setting, sql_settings

_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_MERGED = "spark.sql.parquet.mergeSchema"
_FILE_SYSTEM, _LOCAL = "fs.defaultFS", "file:///"
_ABOUT_FILES = ("fs.", "parquet.", "spark.hadoop.")

_NOT_PLAIN = re.compile(r"metadata|=|\._COPYING_$")
"""What is in names of files of which Spark does not look at the content, or not at that alone."""

_PATTERN = re.compile(r"[*?\[\]{}\\]|^[A-Za-z][A-Za-z0-9+.-]*:")
"""What makes a path more than the name of a file or folder of this machine."""

_DECIMAL = re.compile(r"decimal\(\d+,\d+\)")


def written_schema(session: Any, spec: ReadSpec) -> StructType | None:
    """The schema that Spark would find by itself for Parquet files; None where it has to look.

    Args:
        session: that the pipeline runs on.
        spec: what is read in batch.
    """
    if spec.format.lower() != "parquet" or [name.lower() for name, _ in spec.options] != ["path"]:
        return None
    try:
        if not _is_plain(session):
            return None
        file = _first_file(from_here(spec.options[0][1], spec.format, session))
        return None if file is None else _schema(pq.read_metadata(file).metadata or {})
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None


def _is_plain(session: Any) -> bool:
    """Whether the session reads files of this machine, and asks one of them for the columns."""
    if not sessions.is_local(session):
        return False
    settings = sql_settings(session)
    return (
        settings.get(_MERGED, "false").strip().lower() == "false"
        and not any(name.startswith(_ABOUT_FILES) for name in settings)
        and hadoop_setting(session, _FILE_SYSTEM) == _LOCAL
    )


def _first_file(path: str) -> str | None:
    """The file that Spark would ask; None where there may be partitions, or a summary of files."""
    if _PATTERN.search(path) or os.path.basename(path).startswith(("_", ".")):
        return None
    if os.path.isfile(path):
        return path
    with os.scandir(path) as found:
        entries = [*found]
    if any(entry.is_dir() or _NOT_PLAIN.search(entry.name) for entry in entries):
        return None
    names = [entry.name for entry in entries if not entry.name.startswith(("_", "."))]
    return os.path.join(path, min(names)) if names else None


def _schema(metadata: Mapping[bytes, bytes]) -> StructType | None:
    """What a file tells of its columns, where it is nothing but names and plain types."""
    told = json.loads(metadata[_SCHEMA])
    fields = [*_fields(told["fields"])]
    is_whole = told["type"] == "struct" and len(fields) == len(told["fields"])
    are_told_apart = len({field.name.lower() for field in fields}) == len(fields)
    return StructType(fields) if fields and is_whole and are_told_apart else None


def _fields(told: list[dict[str, Any]]) -> Iterator[StructField]:
    for field in told:
        kind = field["type"]
        if not isinstance(kind, str) or field["metadata"]:
            return
        if kind in KINDS or _DECIMAL.fullmatch(kind):
            # Of files Spark takes it that each column may be null.
            yield StructField.fromJson(field | {"nullable": True})

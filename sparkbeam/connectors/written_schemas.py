"""Spark's schemas in Parquet files, read without a Spark job.

Spark takes the schema from one file. The same is done here if it is evident which file this is and
the file has the whole schema. Spark handles everything else: partitions, patterns, and settings
that change the meaning of a path.
"""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import StructField, StructType

from sparkbeam.common.untrusted_json import loaded
from sparkbeam.connectors.committed_files import listed_files
from sparkbeam.connectors.parquet_equality import KINDS
from sparkbeam.connectors.storage import from_here
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.spark import session as sessions
from sparkbeam.upstream.scans import hadoop_setting, sql_settings

_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_DECIMAL = re.compile(r"decimal\(\d+,\d+\)")

_MERGED = "spark.sql.parquet.mergeSchema"
_FILE_SYSTEM, _LOCAL = "fs.defaultFS", "file:///"
_ABOUT_FILES = ("fs.", "parquet.", "spark.hadoop.")

_NOT_PLAIN = re.compile(r"metadata|[=:]|\._COPYING_$")
"""File names that Spark ignores or interprets."""

_PATTERN = re.compile(r"[*?\[\]{}\\]|^[A-Za-z][A-Za-z0-9+.-]*:")
"""Paths other than plain local ones."""


def written_schema(session: Any, spec: ReadSpec) -> StructType | None:
    """Return the schema that Spark would infer from Parquet files; None if Spark must look."""
    try:
        file = _first_file(session, spec)
        return None if file is None else _schema(pq.read_metadata(file).metadata or {})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException):
        return None


def _first_file(session: Any, spec: ReadSpec) -> str | None:
    """Return the first file by name of those that Spark would find.

    None if Spark may find others, or none.

    Raises:
        OSError: the file or folder does not exist.
    """
    if spec.format.lower() != "parquet" or [name.lower() for name, _ in spec.options] != ["path"]:
        return None
    if not _is_plain(session, sql_settings(session)):
        return None
    path = from_here(spec.options[0][1], spec.format, session)
    if _PATTERN.search(path) or _is_hidden(os.path.basename(path)):
        return None
    if os.path.isfile(path):
        return path
    with os.scandir(path) as found:
        entries = [*found]
    if any(entry.is_dir() or _NOT_PLAIN.search(entry.name) for entry in entries):
        return None
    files = listed_files(path)
    if files is None:
        files = [entry.path for entry in entries if not _is_hidden(entry.name)]
    return min(files, default=None)


def _is_plain(session: Any, settings: Mapping[str, str]) -> bool:
    """Return whether the session reads local files and takes the schema from one of them."""
    return (
        "spark.master" in settings
        and sessions.is_local(session)
        and settings.get(_MERGED, "false").strip().lower() == "false"
        and not any(name.startswith(_ABOUT_FILES) for name in settings)
        and hadoop_setting(session, _FILE_SYSTEM) == _LOCAL
    )


def _is_hidden(name: str) -> bool:
    return name.startswith(("_", "."))


def _schema(metadata: Mapping[bytes, bytes]) -> StructType | None:
    """Return the schema of a file if it consists of names and plain types."""
    told = loaded(metadata[_SCHEMA])
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
            # Spark makes all columns of files nullable.
            yield StructField.fromJson(field | {"nullable": True})

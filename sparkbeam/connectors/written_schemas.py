"""The schemas that Spark writes into Parquet files, read without the job in which Spark reads them.

Spark asks one file for the columns of all. That is done here where it is plain which file that is,
and that it tells all; everything else is left to Spark.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import StructField, StructType

from sparkbeam.common.untrusted_json import loaded
from sparkbeam.connectors.footers import KINDS
from sparkbeam.connectors.plain_folders import plain_files
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.upstream.scans import sql_settings

_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_DECIMAL = re.compile(r"decimal\(\d+,\d+\)")


def written_schema(session: Any, spec: ReadSpec) -> StructType | None:
    """The schema that Spark would find by itself for Parquet files; None where it has to look.

    Args:
        session: that the pipeline runs on.
        spec: what is read in batch.
    """
    try:
        files = plain_files(session, spec, sql_settings(session))
        return None if files is None else _schema(pq.read_metadata(files[0]).metadata or {})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException):
        return None


def _schema(metadata: Mapping[bytes, bytes]) -> StructType | None:
    """What a file tells of its columns, where it is nothing but names and plain types."""
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
            # Of files Spark takes it that each column may be null.
            yield StructField.fromJson(field | {"nullable": True})

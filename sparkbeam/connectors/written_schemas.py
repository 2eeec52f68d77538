"""Spark's schemas in Parquet files, read without a Spark job.

Spark takes the schema from one file. The same is done here if it is evident which file this is and
the file has the whole schema; everything else is left to Spark.
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
    """Return the schema that Spark would infer from Parquet files; None if Spark must look.

    Args:
        session: of the pipeline.
        spec: of a batch source.
    """
    try:
        files = plain_files(session, spec, sql_settings(session))
        return None if files is None else _schema(pq.read_metadata(files[0]).metadata or {})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException):
        return None


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

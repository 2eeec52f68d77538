"""DataFrames of queries over PCollections."""

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import functions as sf
from pyspark.sql.types import (
    DataType,
    LongType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sparkbeam.connectors.latest import quoted
from sparkbeam.connectors.problems import problem
from sparkbeam.errors import PipelineFailed
from sparkbeam.plan.spark_io import QueryFunction, ReadSpec
from sparkbeam.upstream.spark import is_classic

_TIME = "sparkbeam_time"
_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"


def timed(schema: StructType) -> StructType:
    """Return the schema of a table of a query: its columns, and the timestamps."""
    time = _TIME
    while time in schema.names:
        time += "_"
    return StructType([*schema.fields, StructField(time, LongType(), nullable=False)])


def queried(
    session: Any, query: str, tables: Sequence[Any], functions: Sequence[QueryFunction] = ()
) -> Any:
    """Return the result of a query, with its columns by number, and the timestamps.

    Args:
        query: the query, with the tables in braces, as ``{t0}``.
        tables: a DataFrame for each, with the columns of :func:`timed`.
        functions: that it calls. A classic session has them only while it analyzes the query; over
            Spark Connect they stay, under names that depend on what they do.
    """
    named = {f"t{at}": _numbered(table) for at, table in enumerate(tables)}
    # In parentheses it cannot be a command, which Spark would execute immediately.
    text = f"SELECT * FROM (\n{query}\n)"
    for function in functions:
        session.udf.register(function.name, function, function.type)
    try:
        return _numbered(session.sql(text, **named) if named else session.sql(text.format()))
    finally:
        for function in functions if is_classic(session) else ():
            session.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {function.name}")


def _numbered(frame: Any) -> Any:
    """Return a DataFrame with numbers as names, as others may differ only in their case."""
    return frame.toDF(*(f"c{at}" for at in range(len(frame.columns) - 1)), _TIME)


def schema_of(
    session: Any, query: str, schemas: Sequence[StructType], functions: Sequence[QueryFunction]
) -> StructType:
    """Return the schema of a query's result, without timestamps; Spark analyzes the query.

    Args:
        query: see :func:`queried`.
        functions: see :func:`queried`.
    """
    tables = [session.createDataFrame([], timed(schema)) for schema in schemas]
    schema: StructType = queried(session, query, tables, functions).schema
    return StructType(schema.fields[:-1])


def result_of(session: Any, spec: ReadSpec, tables: Sequence[Any], label: str) -> Any:
    """Return the columns of a query's result that are needed, and the timestamps.

    Args:
        tables: see :func:`queried`.

    Raises:
        PipelineFailed: Spark cannot analyze the query.
    """
    numbers = [spec.columns.index(name) for name in spec.read]
    try:
        frame = queried(session, spec.query, tables, spec.functions)
        return frame.select(*(f"c{at}" for at in numbers), _TIME)
    except Exception as error:
        raise PipelineFailed(
            f"Step '{label}' failed: Spark cannot run the query: "
            f"{problem(error, spec.format, spec.options)}",
            label,
        ) from None


def as_table(frame: Any, schema: str) -> Any:
    """Return the DataFrame of a source as a table of a query.

    Args:
        schema: of the table, as Spark's JSON.
    """
    *wanted, _ = StructType.fromJson(json.loads(schema)).fields
    *fields, _ = frame.schema.fields
    columns = [
        _as_type(quoted(field.name), field.dataType, column.dataType).alias(column.name)
        for field, column in zip(fields, wanted, strict=True)
    ]
    return frame.select(*columns, _TIME)


def _as_type(column: str, kind: DataType, wanted: DataType) -> Any:
    if isinstance(kind, TimestampType) and isinstance(wanted, TimestampNTZType):
        # Not by a cast, which depends on the time zone of the session.
        return sf.expr(f"timestampadd(MICROSECOND, unix_micros({column}), {_EPOCH})")
    return sf.col(column) if kind == wanted else sf.col(column).cast(wanted)

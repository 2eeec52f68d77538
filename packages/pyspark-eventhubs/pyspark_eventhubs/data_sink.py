"""Sink of the data source: rows of a DataFrame as events, by ``df.write`` and ``writeStream``."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from pyspark_eventhubs.event_writer import HubWriter, Sending
from pyspark_eventhubs.source_options import SinkOptions
from pyspark_eventhubs.stream_readers import DataSourceStreamArrowWriter

BODY, PARTITION, KEY, PROPERTIES = _COLUMNS = (
    "body",
    "partition_id",
    "partition_key",
    "properties",
)
_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    BODY: ((BinaryType, StringType), "binary or string"),
    PARTITION: ((IntegralType,), "a whole number"),
    KEY: ((StringType,), "string"),
    PROPERTIES: ((MapType,), "a map of strings"),
}
_PLAIN = (
    StringType,
    IntegralType,
    FloatType,
    DoubleType,
    BooleanType,
    BinaryType,
    TimestampType,
)
# Local properties of the jobs of a streaming query, which Spark hands to their tasks.
_QUERY, _MICRO_BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


def check_columns(schema: StructType) -> None:
    """Raise ValueError if rows have no body, or unknown columns."""
    for column in schema:
        if column.name not in _TYPES:
            raise ValueError(
                f"An event has no column '{column.name}', only {', '.join(_COLUMNS)}: select "
                "the columns to send."
            )
        types, wanted = _TYPES[column.name]
        if not isinstance(column.dataType, types):
            raise ValueError(
                f"The column '{column.name}' is {column.dataType.simpleString()} but must be "
                f"{wanted}."
            )
        if isinstance(column.dataType, MapType):
            _check_properties(column.dataType)
    if BODY not in schema.names:
        raise ValueError("An event needs a body: add a binary or string column 'body'.")


def _check_properties(properties: MapType) -> None:
    names = isinstance(properties.keyType, StringType)
    if not names or not isinstance(properties.valueType, _PLAIN):
        wrong = "values must be strings, numbers, bools, bytes or timestamps"
        raise ValueError(
            f"The column 'properties' is {properties.simpleString()}: its "
            f"{wrong if names else 'keys must be strings'}."
        )


@dataclass
class _Sent(WriterCommitMessage):
    """Message that a task has sent all of its rows."""


class _Sends:
    """Task side of the writers for batch and streaming."""

    def __init__(self, options: SinkOptions, run: str) -> None:
        self._options = options
        self._run = run

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send rows; called in a task."""
        sending = Sending(
            self._options.connection,
            itemgetter(BODY),
            lambda row: dict(row.get(PROPERTIES) or ()),
            lambda row: row.get(KEY),
            lambda row: row.get(PARTITION),
            self._options.batch_bytes,
            self._options.timeout,
        )
        context = TaskContext.get()
        run, batch = self._place(context)
        writer = HubWriter(sending, run)
        writer.open(0 if context is None else context.partitionId(), batch)
        for rows in iterator:
            for row in rows.to_pylist():
                writer.process(row)
        writer.close(None)
        return _Sent()

    def _place(self, context: TaskContext | None) -> tuple[str, int]:
        """Return run and micro-batch of a task, which are equal for repeated tasks."""
        return self._run, 0


class EventHubsWriter(_Sends, DataSourceArrowWriter):
    """Writer of the rows of a DataFrame."""


class EventHubsStreamWriter(_Sends, DataSourceStreamArrowWriter):
    """Writer of the rows of micro-batches, whose numbers are equal when repeated."""

    def _place(self, context: TaskContext | None) -> tuple[str, int]:
        query = context and context.getLocalProperty(_QUERY)
        batch = context and context.getLocalProperty(_MICRO_BATCH)
        if not query or not batch:  # So that nothing is taken for a repeat that is none.
            return uuid.uuid4().hex, 0
        return query, int(batch)

"""Rows of a DataFrame as events of a hub: ``df.write`` and ``writeStream``."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
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

from sparkbeam.errors import ConfigurationError
from sparkbeam.eventhubs.event_writer import HubWriter, Sending
from sparkbeam.eventhubs.source_options import SinkOptions

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
    """Raises :class:`ConfigurationError` if rows have no body, or a column that no event has."""
    for column in schema:
        if column.name not in _TYPES:
            raise ConfigurationError(
                f"An event has no column '{column.name}', only {', '.join(_COLUMNS)}: select "
                "those that are to be sent."
            )
        types, wanted = _TYPES[column.name]
        if not isinstance(column.dataType, types):
            raise ConfigurationError(
                f"The column '{column.name}' is {column.dataType.simpleString()}: it has to be "
                f"{wanted}."
            )
        if isinstance(column.dataType, MapType):
            _check_properties(column.dataType)
    if BODY not in schema.names:
        raise ConfigurationError("An event needs a body: give a column 'body', binary or string.")


def _check_properties(properties: MapType) -> None:
    names = isinstance(properties.keyType, StringType)
    if not names or not isinstance(properties.valueType, _PLAIN):
        wrong = "values have to be texts, numbers, truth values, bytes or times"
        raise ConfigurationError(
            f"The column 'properties' is {properties.simpleString()}: its "
            f"{wrong if names else 'keys have to be strings'}."
        )


@dataclass
class _Sent(WriterCommitMessage):
    """A task has sent all of its rows."""


class _Sends:
    """What writers in batch and in streaming share: the work of a task."""

    def __init__(self, options: SinkOptions, run: str) -> None:
        self._options = options
        self._run = run

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Sends rows; called in a task."""
        writer = HubWriter(
            Sending(
                self._options.connection,
                itemgetter(BODY),
                _properties,
                _key,
                _partition,
                self._options.batch_bytes,
                self._options.timeout,
            )
        )
        context = TaskContext.get()
        run, batch = self._place(context)
        writer.of_run(run)
        writer.open(0 if context is None else context.partitionId(), batch)
        for rows in iterator:
            for row in rows.to_pylist():
                writer.process(row)
        writer.close(None)
        return _Sent()

    def _place(self, context: TaskContext | None) -> tuple[str, int]:
        """Run and micro-batch of a task, the same for one that runs again."""
        return self._run, 0


class EventHubsWriter(_Sends, DataSourceArrowWriter):
    """Sends the rows of a DataFrame."""


class EventHubsStreamWriter(_Sends, DataSourceStreamArrowWriter):
    """Sends the rows of micro-batches; one that runs again has the numbers of the first time."""

    def _place(self, context: TaskContext | None) -> tuple[str, int]:
        query = context and context.getLocalProperty(_QUERY)
        batch = context and context.getLocalProperty(_MICRO_BATCH)
        if not query or not batch:  # So that nothing is taken for a repeat that is none.
            return uuid.uuid4().hex, 0
        return query, int(batch)


def _properties(row: Any) -> dict[str, Any]:
    return dict(row.get(PROPERTIES) or ())


def _key(row: Any) -> str | None:
    key: str | None = row.get(KEY)
    return key


def _partition(row: Any) -> int | None:
    number: int | None = row.get(PARTITION)
    return number

"""An event hub over its Kafka endpoint, with Spark's own source and sink."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection, PDone
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from pyspark_eventhubs.event_writer import Sending, body_of
from pyspark_eventhubs.events import as_text
from sparkbeam.common.arguments import shown
from sparkbeam.errors import ConfigurationError
from sparkbeam.io.read import ReadFromSpark
from sparkbeam.io.write import WriteToSpark
from sparkbeam_eventhubs.hub_event import EventHubsEvent

AMQP, KAFKA = "amqp", "kafka"
ENDPOINTS = (AMQP, KAFKA)

_HEADERS = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))
_SOURCE = (
    StructType()
    .add("key", BinaryType())
    .add("value", BinaryType())
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("offset", LongType())
    .add("timestamp", TimestampType())
    .add("timestampType", IntegerType())
    .add("headers", _HEADERS)
)
_COLUMNS = ["key", "value", "partition", "offset", "timestamp", "headers"]


def refuse(
    transform: type[beam.PTransform[Any, Any]], given: Mapping[str, Any], names: Iterable[str]
) -> None:
    """Check that arguments without support over Kafka have their defaults.

    Raises:
        ConfigurationError: one has another value than its default.
    """
    parameters = inspect.signature(transform.__init__).parameters
    for name in names:
        if given[name] != parameters[name].default:
            raise ConfigurationError(
                f"{name}={shown(given[name])} is not supported with endpoint='kafka': omit "
                "it, or use endpoint='amqp'."
            )


class ReadOverKafka(beam.PTransform[PBegin, PCollection[EventHubsEvent]]):
    """Reads a hub as a Kafka topic.

    Args:
        options: returns the options of Spark's source; called when the pipeline is built.
        delay: see ``watermark_delay`` of :class:`.ReadFromEventHubs`.
        idle: see ``idle_timeout`` there.
    """

    def __init__(
        self, options: Callable[[], dict[str, str]], delay: float, idle: float | None
    ) -> None:
        super().__init__()
        self._options = options
        self._delay = delay
        self._idle = idle

    def expand(self, pbegin: PBegin) -> PCollection[EventHubsEvent]:
        rows = pbegin | "Kafka" >> _ReadKafka(
            KAFKA,
            self._options(),
            timestamp_column="timestamp",
            watermark_delay=self._delay,
            columns=_COLUMNS,
            idle_timeout=self._idle,
        )
        return rows | "Events" >> beam.Map(event_of).with_output_types(EventHubsEvent)


class _ReadKafka(ReadFromSpark):
    """Source with a known schema, so that Spark need not be asked."""

    def _ask(self, spec: Any, pipeline: beam.Pipeline, *, streaming: bool) -> StructType:
        return _SOURCE


def event_of(row: Any) -> EventHubsEvent:
    """Convert a Kafka record to an event."""
    headers = [(header.key, header.value) for header in row.headers or ()]
    return EventHubsEvent(
        row.value or b"",
        row.partition,
        str(row.offset),
        row.offset,
        row.timestamp,
        None,
        as_text(row.key),
        {key: as_text(value) for key, value in headers},
        {},
    )


class WriteOverKafka(beam.PTransform[PCollection[Any], PDone]):
    """Writes elements as records of the topic of a hub.

    Args:
        options: returns the options of Spark's sink; called when the pipeline is built.
    """

    def __init__(self, options: Callable[[], dict[str, str]], sending: Sending) -> None:
        super().__init__()
        self._options = options
        self._record = _Record(sending)

    def expand(self, elements: PCollection[Any]) -> PDone:
        records = elements | "Records" >> beam.Map(self._record).with_output_types(dict[str, Any])
        return records | "Kafka" >> WriteToSpark(KAFKA, self._options(), self._record.schema)


class _Record:
    """Conversion of elements to records with the columns of Spark's sink."""

    def __init__(self, sending: Sending) -> None:
        self._sending = sending
        self.schema = StructType().add("value", BinaryType(), nullable=False)
        if sending.partition_key is not None:
            self.schema.add("key", StringType())
        if sending.partition is not None:
            self.schema.add("partition", IntegerType())
        if sending.properties is not None:
            self.schema.add("headers", _HEADERS)

    def __call__(self, element: Any) -> dict[str, Any]:
        sending = self._sending
        found: dict[str, Any] = {
            "value": body_of(element if sending.body is None else sending.body(element))
        }
        if sending.partition_key is not None:
            found["key"] = sending.key_of(element)
        if sending.partition is not None:
            found["partition"] = sending.partition(element)
        if sending.properties is not None:
            found["headers"] = [
                {"key": name, "value": _header(value)}
                for name, value in sending.properties_of(element).items()
            ]
        return found


def _header(value: Any) -> bytes | None:
    if isinstance(value, bytes):
        return value
    found = value.isoformat() if isinstance(value, datetime) else as_text(value)
    return None if found is None else found.encode()

"""Beam's ``WriteToKafka`` on Spark's sink; with a ``transactional.id``, by its producer."""

from typing import Any

import apache_beam as beam
from apache_beam.io.kafka import WriteToKafka
from apache_beam.pipeline import Pipeline
from apache_beam.pvalue import PCollection, PDone
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, StringType, StructType

from sparkbeam.common.arguments import shown
from sparkbeam.common.step_errors import errors_naming
from sparkbeam.connectors.schemas import spark_schema
from sparkbeam.errors import ConfigurationError
from sparkbeam.io.write import WriteToSpark, to_writer
from sparkbeam.plan.labels import applied_label
from sparkbeam.plan.spark_io import Options
from sparkbeam.upstream.external import arguments_of, urn_of
from sparkbeam_kafka import arguments as kafka_arguments
from sparkbeam_kafka.transactions import TRANSACTIONAL_ID, TransactionWriter
from sparkbeam_kafka.values import BYTES, Format, format_of

_REMEDY = "Write bytes, the default, and encode them in a pipeline step."
_SERIALIZERS = ("key.serializer", "value.serializer")
_PAIRS = StructType().add("key", BinaryType()).add("value", BinaryType())
_ROWS = (
    StructType([*_PAIRS.fields])
    .add("headers", ArrayType(StructType().add("key", StringType()).add("value", BinaryType())))
    .add("topic", StringType())
    .add("partition", IntegerType())
)
_NO_TIMESTAMP = (
    "timestamp: Spark's Kafka sink cannot set record timestamps, which are the times when the "
    "records are sent. Leave the field out; a header can hold the time."
)


def write(transform: Any, pipeline: Pipeline) -> beam.PTransform[Any, Any]:
    """Return the replacement of a ``WriteToKafka``.

    Raises:
        ConfigurationError: an argument has no meaning here.
    """
    given = kafka_arguments.checked_write(arguments_of(transform))
    config, topic = given["producer_config"], given.get("topic") or None
    with_headers = urn_of(transform) == WriteToKafka.URN_WITH_HEADERS
    if topic is None and not with_headers:
        raise ConfigurationError("topic= must be the name of a topic.")
    formats = [
        format_of(name, given[name], "Serializer", _REMEDY)
        for name in ("key_serializer", "value_serializer")
    ]
    record = _Row(topic) if with_headers else _Pair(*formats)
    options = kafka_arguments.spark_options(config, _SERIALIZERS)
    sink: beam.PTransform[Any, PDone]
    if TRANSACTIONAL_ID in config:
        writer = TransactionWriter(config, topic or "")
        sink = _WriteTransactions(writer, tuple(sorted(options.items())))
    else:
        of_topic = {} if with_headers or topic is None else {"topic": topic}
        schema = _ROWS if with_headers else _PAIRS
        sink = WriteToSpark("kafka", options | of_topic, schema)
    found = _WriteRecords(record, sink)
    found.label = transform.label
    return found


class _WriteRecords(beam.PTransform[PCollection[Any], PDone]):
    """Writes elements as records.

    Args:
        record: converts an element to a row.
    """

    def __init__(self, record: "_Pair | _Row", sink: beam.PTransform[Any, PDone]) -> None:
        super().__init__()
        self._record = record
        self._sink = sink

    def default_label(self) -> str:
        return "WriteToKafka"

    def expand(self, elements: PCollection[Any]) -> PDone:
        with errors_naming(applied_label(elements.pipeline)):
            self._record.check(elements.element_type)
        rows = elements | "Records" >> beam.Map(self._record).with_output_types(dict[str, Any])
        return rows | "Write" >> self._sink


class _WriteTransactions(beam.PTransform[PCollection[Any], PDone]):
    """Writes the rows of each micro-batch in one transaction.

    Args:
        options: of the writer, to recognize secrets.
    """

    def __init__(self, writer: TransactionWriter, options: Options) -> None:
        super().__init__()
        self._writer = writer
        self._options = options

    def expand(self, rows: PCollection[Any]) -> PDone:
        return to_writer(rows, self._writer, self._options, in_one_task=True)


class _Pair:
    """Conversion of a pair to a row."""

    def __init__(self, key: Format, value: Format) -> None:
        self._key, self._value = key, value

    def check(self, kind: Any) -> None:
        """Accept all types; :meth:`__call__` checks the values."""

    def __call__(self, pair: Any) -> dict[str, Any]:
        try:
            key, value = pair
        except (TypeError, ValueError):
            raise TypeError(
                f"WriteToKafka takes pairs of a key and a value, not {shown(pair)}."
            ) from None
        return {"key": self._key.serialized(key), "value": self._value.serialized(value)}


class _Row:
    """Conversion of a row with headers to a row of the sink."""

    def __init__(self, topic: str | None) -> None:
        self._topic = topic

    def check(self, kind: Any) -> None:
        """Reject rows with a timestamp.

        Raises:
            ConfigurationError: the type has one.
        """
        schema = spark_schema(kind)
        if schema is not None and "timestamp" in schema.names:
            raise ConfigurationError(_NO_TIMESTAMP)

    def __call__(self, row: Any) -> dict[str, Any]:
        if getattr(row, "timestamp", None) is not None:
            raise ValueError(_NO_TIMESTAMP)
        topic = getattr(row, "topic", None) or self._topic
        if not topic:
            raise ValueError("topic: neither the row nor WriteToKafka has one. Set it in either.")
        return {
            "key": BYTES.serialized(row.key),
            "value": BYTES.serialized(row.value),
            "headers": [
                {"key": header.key, "value": BYTES.serialized(header.value)}
                for header in getattr(row, "headers", None) or ()
            ],
            "topic": topic,
            "partition": getattr(row, "partition", None),
        }

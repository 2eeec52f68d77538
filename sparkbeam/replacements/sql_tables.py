"""External tables of SQL as reads of the pipeline."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeVar

import apache_beam as beam
from apache_beam.io import ReadFromAvro, ReadFromParquet, ReadFromText
from apache_beam.io.kafka import ReadFromKafka
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.pipeline import Pipeline
from apache_beam.pvalue import PBegin, PCollection
from pyspark.sql.types import StructType

from sparkbeam.common.arguments import listed, shown
from sparkbeam.connectors import resolve
from sparkbeam.connectors.problems import problem
from sparkbeam.errors import ConfigurationError
from sparkbeam.io.dataframe import FromDataFrame
from sparkbeam.replacements.calcite_ddl import ExternalTable
from sparkbeam.replacements.kafka_settings import client_settings
from sparkbeam.replacements.managed_config import ManagedConfig
from sparkbeam.replacements.sql_documents import read_documents
from sparkbeam.replacements.sql_frames import columns_of
from sparkbeam.replacements.sql_managed import read_delta, read_iceberg
from sparkbeam.replacements.sql_records import (
    FORMS,
    CsvRows,
    JsonRows,
    LineRows,
    RecordRows,
    Scalar,
)
from sparkbeam.replacements.sql_rows import result_type

JSON, LINES = "json", "lines"
_T = TypeVar("_T")


def read(table: ExternalTable, pipeline: Pipeline) -> PCollection[Any]:
    """Return the rows of a table.

    Raises:
        ConfigurationError: its type is not supported, or its location or properties are wrong.
    """
    make = of_type(
        table,
        _TYPES,
        "read",
        "Read it with a transform of Python, such as sparkbeam.io.ReadFromSpark, and apply the "
        "query to its rows.",
    )
    return pipeline | f"Read {table.name}" >> make(table, config_of(table))


def of_type(table: ExternalTable, known: Mapping[str, _T], done: str, remedy: str) -> _T:
    """Return what there is for the type of a table.

    Args:
        table: the table.
        known: by the types.
        done: to the table, in the error.
        remedy: the user can do.

    Raises:
        ConfigurationError: the type is not known.
    """
    if table.type not in known:
        raise ConfigurationError(
            f"The table {shown(table.name)} is of the type {shown(table.type)}, which cannot be "
            f"{done} here: known are {listed(known)}. {remedy}"
        )
    return known[table.type]


def config_of(table: ExternalTable) -> ManagedConfig:
    """Return the properties of a table."""
    return ManagedConfig(f"The table {shown(table.name)} of ddl", table.properties)


class _Files(beam.PTransform[PBegin, PCollection[Any]]):
    """Rows of the records of files.

    Args:
        table: the table.
        read: the transform of a pattern of paths.
        rows: the function of the rows of a record.
    """

    def __init__(
        self, table: ExternalTable, read: Callable[[str], Any], rows: Callable[[Any], list[Any]]
    ) -> None:
        super().__init__()
        self._table = table
        self._read = read
        self._rows = beam.FlatMap(rows).with_output_types(table.columns.type)

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        try:
            read = self._read(_pattern(self._table))
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"The LOCATION of the table {shown(self._table.name)} of ddl has no file that can "
                f"be read ({type(error).__name__}): give a path, a pattern, or a folder with a "
                "slash behind it."
            ) from None
        found: PCollection[Any] = pbegin | "Records" >> read | "Rows" >> self._rows
        return found


def _pattern(table: ExternalTable) -> str:
    location = table.required_location()
    return f"{location}*" if location.endswith("/") else location


def _text(table: ExternalTable, config: ManagedConfig) -> Any:
    return _Files(table, ReadFromText, _rows_of(table, text_form(table, config)))


def _rows_of(table: ExternalTable, form: str) -> Callable[[Any], list[Any]]:
    if form == JSON:
        return JsonRows(table.name, table.columns)
    if form == LINES:
        return LineRows(table.name, table.columns)
    return CsvRows(table.name, table.columns, FORMS[form])


def text_form(table: ExternalTable, config: ManagedConfig) -> str:
    """Return the form of the lines of a table: JSON, LINES, or the name of one of CSV.

    Raises:
        ConfigurationError: the columns cannot have it, or a property has no meaning.
    """
    format = (config.text("format") or "csv").lower()
    form = config.text("csvformat") or "default"
    config.finish()
    if format == JSON:
        return JSON
    if format == LINES:
        _check_single_text(table)
        return LINES
    # The name of a form of CSV may be the format.
    return _csv_form(table, form if format == "csv" else format)


def _csv_form(table: ExternalTable, form: str) -> str:
    if form.lower() not in FORMS:
        raise ConfigurationError(
            f"The table {shown(table.name)} of ddl has the format {shown(form)}; known are "
            f"{listed(['csv', JSON, LINES, *FORMS])}."
        )
    for each in table.columns.fields:
        if not isinstance(each.kind, Scalar):
            raise ConfigurationError(
                f"The column {shown(each.name)} of the table {shown(table.name)} is no simple "
                "type, and its format is CSV: give another format."
            )
    return form.lower()


def _check_single_text(table: ExternalTable) -> None:
    if [field.kind.type for field in table.columns.fields] != [str]:
        raise ConfigurationError(
            f"The table {shown(table.name)} of ddl has the format lines: give it one column, of "
            "the type VARCHAR."
        )


def _avro(table: ExternalTable, config: ManagedConfig) -> Any:
    config.finish()
    return _Files(table, ReadFromAvro, RecordRows(table.name, table.columns))


def _parquet(table: ExternalTable, config: ManagedConfig) -> Any:
    config.finish()
    return _Parquet(table)


class _Parquet(beam.PTransform[PBegin, PCollection[Any]]):
    """Rows of Parquet, which stay with Spark in batch."""

    def __init__(self, table: ExternalTable) -> None:
        super().__init__()
        self._table = table

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        table, pipeline = self._table, pbegin.pipeline
        if pipeline.options.view_as(StandardOptions).streaming:
            rows = RecordRows(table.name, table.columns)
            found: PCollection[Any] = pbegin | _Files(table, ReadFromParquet, rows)
            return found
        frame = _frame(resolve.session_of(pipeline), table)
        return pbegin | _ReadTable(frame)


class _ReadTable(FromDataFrame):
    def _element_type(self, schema: StructType) -> Any:
        return result_type(schema)


def _frame(session: Any, table: ExternalTable) -> Any:
    """Return the DataFrame of the declared columns, in their types."""
    try:
        frame = session.read.parquet(_pattern(table))
        _ = frame.schema
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"Spark cannot read the table {shown(table.name)}: {problem(error, 'parquet', ())}"
        ) from None
    return columns_of(table, frame)


@dataclass(frozen=True)
class KafkaPlace:
    """The topics of a table, and the settings of their clients.

    Attributes:
        servers: the brokers.
        topics: the names of the topics.
        form: of the values, JSON or the name of one of CSV.
        policy: of the timestamps of records, one of :data:`_POLICIES`.
        consumer: settings of the consumer.
        producer: settings of the producer.
    """

    servers: list[str]
    topics: list[str]
    form: str
    policy: str
    consumer: Mapping[str, str] = field(repr=False)
    producer: Mapping[str, str] = field(repr=False)


def kafka_place(table: ExternalTable, config: ManagedConfig) -> KafkaPlace:
    """Return the topics of a table.

    Raises:
        ConfigurationError: there is none, or a property or a column has no meaning here.
    """
    server, _, topic = table.location.partition("/")
    servers = [*filter(None, [server]), *config.names("bootstrap_servers")]
    topics = [*filter(None, [topic]), *config.names("topics")]
    if not servers or not topics:
        raise ConfigurationError(
            f"The table {shown(table.name)} of ddl needs a broker and a topic: give "
            "LOCATION 'broker:9092/topic', or bootstrap_servers and topics in TBLPROPERTIES."
        )
    if any(each.name == "headers" for each in table.columns.fields):
        raise ConfigurationError(
            f"The table {shown(table.name)} of ddl has headers: read it with ReadFromKafka and "
            "with_metadata=True, and apply the query to its rows."
        )
    format = (config.text("format") or "csv").lower()
    policy = config.text("watermark.type") or "ProcessingTime"
    consumer, producer = (
        client_settings(config, key) for key in ("consumer_config", "producer_config")
    )
    config.finish()
    if format not in ("csv", JSON) or policy not in _POLICIES:
        raise ConfigurationError(
            f"The table {shown(table.name)} of ddl has a format or a watermark.type that is not "
            f"known here: give csv or json, and one of {listed(_POLICIES)}. Decode other records "
            "in a step behind ReadFromKafka, and apply the query to its rows."
        )
    form = JSON if format == JSON else _csv_form(table, "default")
    return KafkaPlace(servers, topics, form, policy, consumer, producer)


def _kafka(table: ExternalTable, config: ManagedConfig) -> Any:
    place = kafka_place(table, config)
    rows = _rows_of(table, place.form)
    consumer = {"bootstrap.servers": ",".join(place.servers), **place.consumer}
    return _Topics(consumer, place.topics, _POLICIES[place.policy], table, rows)


_POLICIES = {
    "ProcessingTime": ReadFromKafka.processing_time_policy,
    "LogAppendTime": ReadFromKafka.log_append_time,
    "CreateTime": ReadFromKafka.create_time_policy,
}


class _Topics(beam.PTransform[PBegin, PCollection[Any]]):
    """Rows of the values of records, in batch from the first one that there is."""

    def __init__(
        self,
        consumer: Mapping[str, str],
        topics: list[str],
        policy: str,
        table: ExternalTable,
        rows: Callable[[Any], list[Any]],
    ) -> None:
        super().__init__()
        self._consumer = dict(consumer)
        self._topics = topics
        self._policy = policy
        self._rows = beam.FlatMap(rows).with_output_types(table.columns.type)

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        if not pbegin.pipeline.options.view_as(StandardOptions).streaming:
            self._consumer.setdefault("auto.offset.reset", "earliest")
        read = ReadFromKafka(self._consumer, self._topics, timestamp_policy=self._policy)
        values = pbegin | "Records" >> read | "Values" >> beam.Map(itemgetter(1))
        found: PCollection[Any] = values | "Rows" >> self._rows
        return found


_TYPES: Mapping[str, Callable[[ExternalTable, ManagedConfig], Any]] = {
    "avro": _avro,
    "delta": read_delta,
    "iceberg": read_iceberg,
    "kafka": _kafka,
    "mongodb": read_documents,
    "parquet": _parquet,
    "text": _text,
}
"""The transform of a table by its type."""

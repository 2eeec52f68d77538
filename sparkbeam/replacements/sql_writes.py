"""External tables of SQL as sinks of the pipeline, for ``INSERT INTO``."""

import functools
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.io import WriteToAvro, WriteToParquet, WriteToText
from apache_beam.io.kafka import WriteToKafka
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.pvalue import PCollection
from apache_beam.typehints import Tuple

from sparkbeam.common.arguments import shown
from sparkbeam.errors import ConfigurationError
from sparkbeam.replacements.calcite_ddl import ExternalTable
from sparkbeam.replacements.managed_config import ManagedConfig
from sparkbeam.replacements.sql_documents import document, write_documents
from sparkbeam.replacements.sql_managed import write_delta, write_iceberg
from sparkbeam.replacements.sql_records import FORMS, Kind, ListOf, MapOf, RowOf, Scalar
from sparkbeam.replacements.sql_tables import (
    JSON,
    LINES,
    config_of,
    kafka_place,
    of_type,
    text_form,
)
from sparkbeam.replacements.sql_written import CsvLine, RowCheck, RowWriter, json_object, line_of


def write(table: ExternalTable, rows: PCollection[Any]) -> None:
    """Write rows to a table, whose columns they have.

    Raises:
        ConfigurationError: its type is not supported, or its location or properties are wrong.
    """
    make = of_type(
        table,
        _TYPES,
        "written",
        "Write the rows of the query with a transform of Python, such as "
        "sparkbeam.io.WriteToSpark.",
    )
    is_stream = rows.pipeline.options.view_as(StandardOptions).streaming
    found = make(table, config_of(table), is_stream)
    if found.of_values is not None:
        writer = RowWriter(table.name, table.columns, found.of_values, found.maps)
        records = beam.Map(writer).with_output_types(found.element)
        rows = rows | f"Records {table.name}" >> records
    elif not all(field.nullable for field in table.columns.fields):
        kind: Any = rows.element_type
        check = beam.Map(RowCheck(RowWriter(table.name, table.columns, dict)))
        rows = rows | f"Checked {table.name}" >> check.with_output_types(kind)
    _ = rows | f"Write {table.name}" >> found.sink


@dataclass(frozen=True)
class _Sink:
    """Write of a table.

    Attributes:
        sink: the transform that writes records.
        of_values: the function of the record of values; None if records are the rows.
        element: the type of records.
        maps: the type that maps have in values, of pairs.
    """

    sink: Any
    of_values: Callable[[Mapping[str, Any]], Any] | None = dict
    element: Any = Any
    maps: Callable[[Iterable[tuple[Any, Any]]], Any] = dict


def _prefix(table: ExternalTable, is_stream: bool) -> str:
    """Return the begin of the paths of new files.

    In batch, files in a folder have new names, so that those of earlier runs stay.
    """
    location = table.required_location()
    if any(each in location for each in "*?["):
        raise ConfigurationError(
            f"The LOCATION of the table {shown(table.name)} of ddl is a pattern: rows are "
            "written to a folder, with a slash behind it, or to files that begin with a path."
        )
    if not location.endswith("/"):
        return location
    return f"{location}rows" if is_stream else f"{location}rows-{uuid.uuid4().hex[:12]}"


def _text(table: ExternalTable, config: ManagedConfig, is_stream: bool) -> _Sink:
    form = text_form(table, config)
    return _Sink(WriteToText(_prefix(table, is_stream)), _line_of(form), str)


def _line_of(form: str) -> Callable[[Mapping[str, Any]], str]:
    if form == JSON:
        return json_object
    return line_of if form == LINES else CsvLine(FORMS[form])


def _avro(table: ExternalTable, config: ManagedConfig, is_stream: bool) -> _Sink:
    config.finish()
    schema = _avro_type(table.name, table.columns, "Row")
    return _Sink(WriteToAvro(_prefix(table, is_stream), schema, file_name_suffix=".avro"))


def _avro_type(table: str, kind: Kind, name: str) -> Any:
    if isinstance(kind, ListOf):
        return {"type": "array", "items": ["null", _avro_type(table, kind.element, f"{name}_e")]}
    if isinstance(kind, MapOf):
        if kind.key.type is not str:
            raise ConfigurationError(
                f"The table {shown(table)} of ddl has a MAP whose keys are no VARCHAR, which Avro "
                "does not have: give another type."
            )
        return {"type": "map", "values": ["null", _avro_type(table, kind.item, f"{name}_v")]}
    if isinstance(kind, RowOf):
        fields = []
        for field in kind.fields:
            found = _avro_type(table, field.kind, f"{name}_{field.name}")
            fields.append(
                {"name": field.name, "type": ["null", found] if field.nullable else found}
            )
        return {"type": "record", "name": name, "fields": fields}
    assert isinstance(kind, Scalar)
    return _AVRO[kind.name]


_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 18}
_AVRO: Mapping[str, Any] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER"), "int"),
    **dict.fromkeys(("CHAR", "VARCHAR"), "string"),
    **dict.fromkeys(("BINARY", "VARBINARY"), "bytes"),
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DECIMAL": _DECIMAL,
    "BOOLEAN": "boolean",
    "DATE": {"type": "int", "logicalType": "date"},
    "TIMESTAMP": {"type": "long", "logicalType": "timestamp-micros"},
}


def _parquet(table: ExternalTable, config: ManagedConfig, is_stream: bool) -> _Sink:
    config.finish()
    schema = pa.schema(list(_arrow_type(table.columns)))
    sink = WriteToParquet(_prefix(table, is_stream), schema, file_name_suffix=".parquet")
    return _Sink(sink, maps=list)


def _arrow_type(kind: Kind) -> Any:
    if isinstance(kind, ListOf):
        return pa.list_(_arrow_type(kind.element))
    if isinstance(kind, MapOf):
        return pa.map_(_arrow_type(kind.key), _arrow_type(kind.item))
    if isinstance(kind, RowOf):
        return pa.struct(
            [pa.field(each.name, _arrow_type(each.kind), each.nullable) for each in kind.fields]
        )
    assert isinstance(kind, Scalar)
    return _ARROW[kind.name]


_ARROW: Mapping[str, pa.DataType] = {
    **dict.fromkeys(("CHAR", "VARCHAR"), pa.string()),
    **dict.fromkeys(("BINARY", "VARBINARY"), pa.binary()),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DECIMAL": pa.decimal128(38, 18),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
}


def _kafka(table: ExternalTable, config: ManagedConfig, is_stream: bool) -> _Sink:
    place = kafka_place(table, config)
    if len(place.topics) > 1:
        raise ConfigurationError(
            f"The table {shown(table.name)} of ddl has {len(place.topics)} topics: rows are "
            "written to one."
        )
    pair = functools.partial(_pair, _line_of(place.form))
    producer = {"bootstrap.servers": ",".join(place.servers), **place.producer}
    return _Sink(WriteToKafka(producer, place.topics[0]), pair, Tuple[bytes, bytes])


def _pair(
    line: Callable[[Mapping[str, Any]], str], values: Mapping[str, Any]
) -> tuple[bytes, bytes]:
    return b"", line(values).encode()


def _delta(table: ExternalTable, config: ManagedConfig, is_stream: bool) -> _Sink:
    return _Sink(write_delta(table, config), None)


def _iceberg(table: ExternalTable, config: ManagedConfig, is_stream: bool) -> _Sink:
    return _Sink(write_iceberg(table), None)


def _mongodb(table: ExternalTable, config: ManagedConfig, is_stream: bool) -> _Sink:
    return _Sink(write_documents(table, config), document, dict[str, Any])


_TYPES: Mapping[str, Callable[[ExternalTable, ManagedConfig, bool], _Sink]] = {
    "avro": _avro,
    "delta": _delta,
    "iceberg": _iceberg,
    "kafka": _kafka,
    "mongodb": _mongodb,
    "parquet": _parquet,
    "text": _text,
}
"""Functions of the sink of a table by its type; the last argument is true in a stream."""

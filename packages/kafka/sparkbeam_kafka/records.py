"""Records of Kafka as elements: pairs of key and value, or rows with metadata."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.typehints import Optional, Tuple
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

from sparkbeam.connectors.schemas import row_type
from sparkbeam_kafka.values import BYTES, Format

_HEADERS = ArrayType(
    StructType().add("key", StringType(), nullable=False).add("value", BinaryType()),
    containsNull=False,
)
_METADATA = (
    StructType()
    .add("topic", StringType(), nullable=False)
    .add("partition", IntegerType(), nullable=False)
    .add("offset", LongType(), nullable=False)
    .add("timestamp", LongType(), nullable=False)
    .add("timestampTypeId", IntegerType(), nullable=False)
    .add("timestampTypeName", StringType(), nullable=False)
    .add("headers", _HEADERS, nullable=False)
)
_DERIVED = (
    ("timestamp", "unix_millis(timestamp)"),
    ("timestampTypeId", "timestampType"),
    (
        "timestampTypeName",
        "CASE timestampType WHEN 0 THEN 'CreateTime' WHEN 1 THEN 'LogAppendTime' "
        "ELSE 'NoTimestampType' END",
    ),
    ("headers", "coalesce(headers, CAST(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>))"),
)
_TYPE_NAMES = ("NoTimestampType", "CreateTime", "LogAppendTime")


@dataclass(frozen=True)
class RecordForm:
    """Form of the elements."""

    key: Format
    value: Format
    with_metadata: bool

    @property
    def schema(self) -> StructType:
        """The columns of rows; key and value alone for pairs."""
        found = StructType([*_METADATA.fields] if self.with_metadata else [])
        return found.add("key", self.key.column).add("value", self.value.column)

    @property
    def type(self) -> Any:
        """The type of the elements."""
        if self.with_metadata:
            return row_type(self.schema)
        return Tuple[Optional[self.key.type], Optional[self.value.type]]

    def derived(self, label: str) -> tuple[tuple[str, str], ...]:
        """Return the columns that Spark's source does not have like this, with SQL expressions.

        Args:
            label: of the step, for its errors.
        """
        return (*(_DERIVED if self.with_metadata else ()), *self._deserialized(label))

    def _deserialized(self, label: str) -> Iterator[tuple[str, str]]:
        for name, form in (("key", self.key), ("value", self.value)):
            if form != BYTES:
                yield name, form.expression(name, label)

    def element(self, message: Any) -> Any:
        """Return the element of a message of the client."""
        key = self.key.deserialized(message.key())
        value = self.value.deserialized(message.value())
        if not self.with_metadata:
            return key, value
        kind, millis = message.timestamp()
        return beam.Row(
            topic=message.topic(),
            partition=message.partition(),
            offset=message.offset(),
            timestamp=millis,
            timestampTypeId=kind - 1,
            timestampTypeName=_TYPE_NAMES[kind],
            headers=[beam.Row(key=name, value=data) for name, data in message.headers() or ()],
            key=key,
            value=value,
        )

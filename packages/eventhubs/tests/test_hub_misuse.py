"""Wrong arguments and options of Event Hubs, in the table beside this module."""

import threading
from typing import Any

import apache_beam as beam
import misuse
import pytest
from hubs import stream
from pyspark.sql.types import ArrayType, DataType, IntegerType, MapType, StringType
from test_hub_frames import columns, write
from test_kafka import record
from test_writing import write as send_all

from pyspark_eventhubs import EventHubsSource, EventPosition
from pyspark_eventhubs.testing import EventHubsServer
from sparkbeam import SparkRunner
from sparkbeam_eventhubs import ReadFromEventHubs, SlowPartitions, WriteToEventHubs

TEXT = "Endpoint=sb://localhost:1;SharedAccessKeyName=a;SharedAccessKey=geheim"
OPTIONS = {"connectionString": TEXT, "eventHub": "clicks"}
LISTS = ArrayType(StringType())
LOCK: Any = threading.Lock()


def source(**options: str) -> Any:
    """Plan the first micro-batch of the data source."""
    found = EventHubsSource(OPTIONS | options)
    return found.streamReader(found.schema()).initialOffset()


def writer(**types: DataType) -> Any:
    return EventHubsSource(OPTIONS).writer(columns(**types), False)


def stream_writer(**types: DataType) -> Any:
    return EventHubsSource(OPTIONS).streamWriter(columns(**types), False)


def read(*options: str, **given: Any) -> Any:
    given = {"connection_string": TEXT, "event_hub": "clicks"} | given
    return beam.Pipeline(SparkRunner(), argv=[*options]) | "Read" >> ReadFromEventHubs(**given)


def write_to(**given: Any) -> Any:
    given = {"connection_string": TEXT, "event_hub": "clicks"} | given
    return beam.Pipeline(SparkRunner()) | beam.Create([b"x"]) | "Write" >> WriteToEventHubs(**given)


@misuse.table(__file__)
def test_a_wrong_call_is_an_error(
    call: misuse.Call, server: EventHubsServer, base: dict[str, str]
) -> None:
    def send(element: Any, **given: Any) -> None:
        """Send an element in a task of a pipeline's sink."""
        send_all(server, [b"first", element], **given)

    def send_row(**row: Any) -> None:
        """Send a row in a task of the data source's sink."""
        write(base, [row])

    misuse.check(call, globals() | {"base": base, "send": send, "send_row": send_row})

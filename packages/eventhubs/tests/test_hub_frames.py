"""DataFrames to and from event hubs, without Beam."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hubs import numbered
from pyspark import TaskContext
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from pyspark_eventhubs import EventHubsSource
from pyspark_eventhubs.event_writer import SENT
from pyspark_eventhubs.testing import EventHubsServer

TEXTS = MapType(StringType(), StringType())
_ARROW = {
    StringType(): pa.string(),
    BinaryType(): pa.binary(),
    IntegerType(): pa.int32(),
    TEXTS: pa.map_(pa.string(), pa.string()),
}


def columns(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


BODIES = columns(body=StringType())
ROWS = columns(
    body=StringType(), partition_id=IntegerType(), partition_key=StringType(), properties=TEXTS
)


def write(base: dict[str, str], rows: list[dict[str, Any]], schema: StructType = ROWS) -> None:
    """What a task of a batch does."""
    writer = EventHubsSource(base).writer(schema, False)
    arrow = pa.schema([(field.name, _ARROW[field.dataType]) for field in schema])
    writer.write(iter([pa.RecordBatch.from_pylist(rows, arrow)]))


def test_a_row_says_where_its_event_goes(server: EventHubsServer, base: dict[str, str]) -> None:
    rows: list[dict[str, Any]] = [
        {"body": "first", "partition_id": 1},
        {"body": "second", "partition_key": "k", "properties": [("n", "1"), ("none", None)]},
        {"body": "third"},
    ]
    write(base, rows)
    found = {
        event.body: (at, event.partition_key, dict(event.properties))
        for at in range(2)
        for event in server.events("clicks", at)
    }
    sent = {body: properties.pop(SENT) for body, (_, _, properties) in found.items()}
    assert len(found) == len(set(sent.values())) == 3
    assert found[b"first"] == (1, None, {})
    assert found[b"second"][1:] == ("k", {"n": "1", "none": None})
    assert found[b"third"][1:] == (None, {})


def test_a_body_is_enough(server: EventHubsServer, base: dict[str, str]) -> None:
    write(base, [{"body": body} for body in numbered(10)], columns(body=BinaryType()))
    assert [event.body for event in server.events("clicks", 0)] == numbered(10)


def test_the_sink_of_a_stream_takes_the_location_of_the_checkpoint(base: dict[str, str]) -> None:
    EventHubsSource(base | {"checkpointLocation": "/c"}).streamWriter(ROWS, False)


def test_a_micro_batch_that_runs_again_sends_the_same(
    server: EventHubsServer, base: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    named: dict[str, str] = {}
    task = SimpleNamespace(getLocalProperty=named.get, partitionId=lambda: 1)
    monkeypatch.setattr(TaskContext, "get", lambda: task)

    def send() -> list[Any]:
        """A micro-batch, which Spark runs twice."""
        for _ in range(2):
            writer = EventHubsSource(base).streamWriter(BODIES, False)
            writer.write(iter(pa.table({"body": ["a", "b"]}).to_batches()))
        return [event.properties[SENT] for event in server.events("clicks", 1)]

    assert len(set(send())) == 4, "what cannot be told to be a repeat is none"
    named |= {"sql.streaming.queryId": "query", "streaming.sql.batchId": "3"}
    assert send()[4:] == ["query/3/1/0", "query/3/1/1"] * 2

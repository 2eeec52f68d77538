"""DataFrames to and from event hubs, without Beam."""

import json
from pathlib import Path
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


@pytest.mark.long("a minute; streams and batches on Spark have a test of their own")
@pytest.mark.timeout(120)
def test_frames_go_to_a_hub_and_come_back(spark: Any, tmp_path: Path) -> None:
    spark.dataSource.register(EventHubsSource)
    with EventHubsServer({"in": 2, "out": 2}) as server:
        base = {"connectionString": server.connection_string()}

        def hub(name: str) -> dict[str, str]:
            return base | {"eventHub": name}

        rows = [
            (b"%d" % number, None, f"key {number % 7}" if number % 2 else None, {"n": str(number)})
            for number in range(1000)
        ]
        ddl = "body binary, partition_id int, partition_key string, properties map<string, string>"
        frame = spark.createDataFrame(rows, ddl).coalesce(1)
        frame.write.format("eventhubs").mode("append").options(**hub("in")).save()
        back = spark.read.format("eventhubs").options(**hub("in")).load()
        sent = {body: (key, values) for body, _, key, values in rows}
        for row in back.collect():
            row.properties.pop(SENT)
            assert sent.pop(bytes(row.body)) == (row.partition_key, row.properties)
        assert not sent

        stream = (
            spark.readStream.format("eventhubs")
            .options(**hub("in"), startingPosition="start")
            .load()
        )
        copy = stream.select("body", "partition_key", "properties").writeStream
        copy = copy.format("eventhubs").options(**hub("out"), checkpointLocation=f"{tmp_path}/copy")
        assert copy.trigger(availableNow=True).start().awaitTermination(60)
        out = [event for at in range(2) for event in server.events("out", at)]
        assert sorted(event.body for event in out) == sorted(body for body, *_ in rows)
        runs = {str(event.properties[SENT]).rpartition("/")[0] for event in out}
        query = json.loads((tmp_path / "copy" / "metadata").read_text())["id"]
        assert runs == {f"{query}/0/0", f"{query}/0/1"}, "query, micro-batch and task"

        counts = []

        def twice(frame: Any, number: int) -> None:
            counts.append((frame.count(), frame.count()))

        again = stream.writeStream.foreachBatch(twice).trigger(availableNow=True)
        again = again.option("checkpointLocation", f"{tmp_path}/twice")
        assert again.start().awaitTermination(60)
        assert sum(first for first, _ in counts) == sum(second for _, second in counts) == 1000

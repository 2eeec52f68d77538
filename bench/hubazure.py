"""Checks the source and the sink of Event Hubs against a hub of yours, in Azure.

Run with ``HUB='Endpoint=sb://…;EntityPath=…' python bench/hubazure.py`` and a hub that is made for
it: the program sends some hundred small events and ten large ones, and reads them back. The key
needs the rights Send and Listen; nobody else should read in the consumer group (``--group``,
``$Default``). It prints each check with its result, and nothing of the connection string.
``--spark`` also goes from a DataFrame to the hub and back, and through a stream.

``--stand-in`` runs the same checks against the server for tests, so that what fails in Azure alone
is a difference between the two. ``packages/eventhubs/tests/test_hub_azure.py`` does so.
"""

import argparse
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark_eventhubs import EventHubsSource, EventPosition
from pyspark_eventhubs.event_writer import HubWriter, Sending
from pyspark_eventhubs.events import Bounds, EventHubsError, Events, StolenError
from pyspark_eventhubs.pool import POOL
from pyspark_eventhubs.positions import all_as_text
from pyspark_eventhubs.settings import ConnectionSettings
from pyspark_eventhubs.testing import EventHubsServer

_VARIABLE = "HUB"
_SECONDS = 30
_MANY = 100


@dataclass(frozen=True)
class Hub:
    """The hub that is looked at.

    Attributes:
        connection: to it.
        group: as which it is read.
        run: tells the events of this run from those of others.
    """

    connection: ConnectionSettings
    group: str
    run: str = field(default_factory=lambda: secrets.token_hex(4))

    def bounds(self) -> dict[str, Bounds]:
        """Which events each partition has."""
        with POOL.client(self.connection) as client:
            return client.bounds(client.partitions())

    def send(self, elements: list[Any], **how: Any) -> None:
        """Sends elements as a task does."""
        writer = HubWriter(Sending(self.connection, timeout=_SECONDS, **how), self.run)
        writer.open(0, 0)
        for element in elements:
            writer.process(element)
        writer.close(None)

    def bodies(self, count: int) -> list[bytes]:
        """Bodies that nobody else sends."""
        return [f"{self.run} {secrets.token_hex(4)} {number}".encode() for number in range(count)]

    def source(self, **given: str) -> EventHubsSource:
        """The data source over it."""
        options = {**self.connection.options(), "consumerGroup": self.group, **given}
        return EventHubsSource({"exclusive": "false", "operationTimeout": str(_SECONDS), **options})

    def read(self, **given: str) -> list[dict[str, Any]]:
        """The rows of a batch."""
        source = self.source(**given)
        reader: Any = source.reader(source.schema())
        return list(_rows(reader, reader.partitions()))

    def since(self, before: dict[str, Bounds]) -> list[dict[str, Any]]:
        """The rows of what has come since then."""
        starts = {
            int(name): EventPosition.sequence_number(found.end) for name, found in before.items()
        }
        return self.read(startingPositions=all_as_text(starts))


def _rows(reader: Any, parts: Any) -> Iterator[dict[str, Any]]:
    return (row for part in parts for batch in reader.read(part) for row in batch.to_pylist())


def partitions_have_bounds(hub: Hub) -> None:
    """Each partition tells its first and its next sequence number."""
    found = hub.bounds()
    assert sorted(map(int, found)) == list(range(len(found))), f"partitions {sorted(found)}"
    assert all(0 <= bounds.first <= bounds.end for bounds in found.values())


def events_come_back_in_order(hub: Hub) -> None:
    """Events of one partition come in their order, without a gap."""
    before, bodies = hub.bounds(), hub.bodies(_MANY)
    hub.send(bodies, partition=lambda _: 0)
    rows = hub.since(before)
    assert [row["body"] for row in rows] == bodies
    numbers = [row["sequence_number"] for row in rows]
    assert numbers == list(range(before["0"].end, before["0"].end + _MANY))


def a_key_is_in_one_partition(hub: Hub) -> None:
    """The service keeps the events of a key together."""
    before, bodies = hub.bounds(), hub.bodies(_MANY)
    hub.send(bodies, partition_key=lambda body: f"key {int(body.split()[-1]) % 5}")
    rows = hub.since(before)
    assert len(rows) == _MANY
    places = {(row["partition_key"], row["partition"]) for row in rows}
    assert len(places) == len({key for key, _ in places}) == 5, f"{places}"


def batches_go_to_all_partitions(hub: Hub) -> None:
    """Tasks begin with different partitions."""
    before = hub.bounds()
    for task in range(len(before)):
        writer = HubWriter(Sending(hub.connection))
        writer.open(task, 0)
        writer.process(hub.bodies(1)[0])
        writer.close(None)
    assert sorted(row["partition"] for row in hub.since(before)) == list(range(len(before)))


def properties_are_texts(hub: Hub) -> None:
    """Properties of all types come back as texts."""
    before = hub.bounds()
    given = {"t": "ä", "i": -(2**63), "f": 0.5, "b": True, "y": b"\x00", "none": None}
    hub.send(hub.bodies(1), properties=lambda _: given)
    (row,) = hub.since(before)
    found = dict(row["properties"])
    del found["sparkbeam-sent"]
    expected = {"t": "ä", "i": str(-(2**63)), "f": "0.5", "b": "true", "y": "\x00", "none": None}
    assert found == expected, f"{found}"


def positions_find_events(hub: Hub) -> None:
    """Times, offsets and sequence numbers find the same events."""
    before, bodies = hub.bounds(), hub.bodies(2)
    hub.send(bodies[:1], partition=lambda _: 0)
    time.sleep(0.1)  # The service tells times in milliseconds.
    hub.send(bodies[1:], partition=lambda _: 0)
    first, second = hub.since(before)
    for position, wanted in (
        (EventPosition.enqueued(second["enqueued_time"]), bodies[1:]),
        (EventPosition.offset(first["offset"]), bodies),
        (EventPosition.offset(first["offset"], inclusive=False), bodies[1:]),
        (EventPosition.sequence_number(second["sequence_number"]), bodies[1:]),
    ):
        others = {int(name): EventPosition.end() for name in before if name != "0"}
        rows = hub.read(startingPositions=all_as_text({0: position, **others}))
        assert [row["body"] for row in rows] == wanted, f"from {position}"


def large_events_are_sent_in_several_batches(hub: Hub) -> None:
    """Two megabytes go into batches that the service takes."""
    before = hub.bounds()
    bodies = [body + secrets.token_bytes(200_000) for body in hub.bodies(10)]
    hub.send(bodies, partition=lambda _: 0)
    assert [row["body"] for row in hub.since(before)] == bodies


def a_stream_reads_on(hub: Hub) -> None:
    """Micro-batches go on from each other, and are the same when they are read again."""
    source = hub.source(startingPosition="end")
    reader: Any = source.streamReader(source.schema())
    start = reader.initialOffset()
    found = []
    for _ in range(3):
        bodies = hub.bodies(10)
        hub.send(bodies, partition=lambda _: 0)
        end = reader.latestOffset(start)
        for _ in range(2):  # As two actions on a micro-batch do.
            found += [row["body"] for row in _rows(reader, reader.partitions(start, end))]
            assert found[-10:] == bodies
        start = end
    assert reader.latestOffset(start) == start


def a_later_run_takes_over(hub: Hub) -> None:
    """The higher epoch takes a partition over, and the lower one is told."""
    end = hub.bounds()["0"].end
    with POOL.client(hub.connection) as client:
        earlier = client.receiver(hub.group, "0", end, 1, 10)
        later = client.receiver(hub.group, "0", end, 2, 10)
        body = hub.bodies(1)[0]
    hub.send([body], partition=lambda _: 0)
    try:
        assert _until(lambda: later.read(end + 1, 5)).bodies == [body]
        try:
            _until(lambda: earlier.read(end + 1, 5))
        except StolenError:
            return
        raise AssertionError("the receiver of the lower epoch goes on")
    finally:
        later.close()
        earlier.close()


def _until(read: Callable[[], Events]) -> Events:
    """What comes first, within a while."""
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        found = read()
        if found.numbers:
            return found
    raise AssertionError(f"nothing has come for {_SECONDS} s")


def a_wrong_key_is_refused_and_not_told(hub: Hub) -> None:
    """An error of authorization is one that does not go away."""
    text = hub.connection.connection_string()
    key = hub.connection.endpoint().key or ""
    assert key, "the connection string has no SharedAccessKey"
    wrong = ConnectionSettings(text.replace(key, "d3Jvbmc="), hub=hub.connection.hub)
    said = ""
    try:
        with POOL.client(wrong) as client:
            client.partitions()
    except EventHubsError as error:
        said = str(error)
    assert said, "it is taken"
    assert "d3Jvbmc" not in said, "the error tells the key"


CHECKS = (
    partitions_have_bounds,
    events_come_back_in_order,
    a_key_is_in_one_partition,
    batches_go_to_all_partitions,
    properties_are_texts,
    positions_find_events,
    large_events_are_sent_in_several_batches,
    a_stream_reads_on,
    a_later_run_takes_over,
    a_wrong_key_is_refused_and_not_told,
)


def frames_go_and_come_back(hub: Hub) -> None:
    """A DataFrame into the hub, and what has come of it as a batch and as a stream."""
    from sparkbeam.options.spark_options import SparkBeamOptions
    from sparkbeam.spark.session import obtain

    spark = obtain(SparkBeamOptions(["--spark_master=local[2]"]))
    spark.dataSource.register(EventHubsSource)
    options = {**hub.connection.options(), "consumerGroup": hub.group}
    before = {
        int(name): EventPosition.sequence_number(found.end) for name, found in hub.bounds().items()
    }
    rows = [(body.decode(), f"key {number % 7}") for number, body in enumerate(hub.bodies(_MANY))]
    frame = spark.createDataFrame(rows, "body string, partition_key string")
    sending = {name: value for name, value in options.items() if name != "consumerGroup"}
    frame.write.format("eventhubs").mode("append").options(**sending).save()
    reading = {**options, "startingPositions": all_as_text(before)}
    back = spark.read.format("eventhubs").options(**reading).load().collect()
    assert sorted(bytes(row.body).decode() for row in back) == sorted(body for body, _ in rows)
    counts: list[int] = []
    stream = spark.readStream.format("eventhubs").options(**reading).load()
    with tempfile.TemporaryDirectory() as folder:
        query = (
            stream.writeStream.foreachBatch(lambda batch, _: counts.append(batch.count()))
            .option("checkpointLocation", folder)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(10 * _SECONDS)
    assert sum(counts) == _MANY
    spark.stop()


def run(hub: Hub, checks: tuple[Callable[[Hub], None], ...]) -> list[str]:
    """Runs checks one by one; the names of those that have failed."""
    failed = []
    for check in checks:
        name, since = check.__name__.replace("_", " "), time.perf_counter()
        try:
            check(hub)
            told = "ok"
        except Exception as error:
            told = f"FAILED: {type(error).__name__}: {error}"
            failed.append(name)
        print(
            f"{datetime.now():%H:%M:%S} {name}: {told} ({time.perf_counter() - since:.1f} s)",
            flush=True,
        )
    return failed


def main() -> None:
    """Runs what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--hub", help="its name, if the connection string has no EntityPath")
    parser.add_argument("--group", default="$Default", help="the consumer group")
    parser.add_argument("--spark", action="store_true", help="check DataFrames, too")
    parser.add_argument("--stand-in", action="store_true", help="against the server for tests")
    given = parser.parse_args()
    if not given.stand_in and _VARIABLE not in os.environ:
        sys.exit(f"Set {_VARIABLE} to the connection string of a hub that is made for this.")
    checks = (*CHECKS, *((frames_go_and_come_back,) if given.spark else ()))
    with EventHubsServer({"clicks": 4}) as server:
        if given.stand_in:
            os.environ[_VARIABLE] = server.connection_string("clicks")
        hub = Hub(ConnectionSettings(f"env:{_VARIABLE}", hub=given.hub), given.group)
        failed = run(hub, checks)
        POOL.close()
    sys.exit(f"{len(failed)} failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()

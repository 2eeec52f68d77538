"""How fast event hubs are read: the clients alone, and the data source under Spark.

Run with ``python bench/eventhubs.py``. The server runs in a process of its own, on loopback, so
that the times are of the reader; a second of CPU is one of the process that reads, and so a figure
for a core. ``--spark`` runs a stream from the hub to a count in place of that, and tells how many
receivers that took, and how long planning.
"""

import argparse
import multiprocessing
import multiprocessing.connection
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table

from sparkbeam.eventhubs.client import Client
from sparkbeam.eventhubs.pool import opened
from sparkbeam.eventhubs.settings import Connection
from sparkbeam.testing import EventHubsServer

HUB = "bench"


def serve(pipe: Any, partitions: int, events: int, size: int) -> None:
    """Runs a server with events in each partition until it is told to end."""
    with EventHubsServer({HUB: partitions}) as server:
        body = bytes(size)
        for partition in range(partitions):
            server.send(
                HUB,
                (body for _ in range(events)),
                partition=partition,
                properties={"kind": "click"},
            )
        pipe.send(server.connection_string(HUB))
        while pipe.recv() == "counts":
            pipe.send(server.counts())


@contextmanager
def served(partitions: int, events: int, size: int) -> Iterator[tuple[str, Any]]:
    """A server in another process: its connection string, and a pipe to ask it over."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, partitions, events, size))
    process.start()
    try:
        yield ours.recv(), ours
    finally:
        ours.send("end")
        process.join()


def by_the_sdk(text: str, events: int) -> None:
    """What a program of the SDK's does: ``receive_batch`` until all are there."""
    from azure.eventhub import EventHubConsumerClient

    client = EventHubConsumerClient.from_connection_string(text, "$Default")
    count = 0

    def take(context: Any, found: list[Any]) -> None:
        nonlocal count
        for event in found:
            count += len(event.body_as_str()) >= 0
        if count >= events:
            client.close()

    client.receive_batch(
        take, partition_id="0", starting_position="-1", max_batch_size=1000, prefetch=1000
    )


def by_ours(kind: str) -> Callable[[str, int], None]:
    """The data source's way: receivers of exact credit, events as Arrow columns."""

    def read(text: str, events: int) -> None:
        from sparkbeam.eventhubs.columns import arrow_schema, batch, schema

        of_rows = arrow_schema(schema(event_time=False))
        client: Client = opened(Connection(text=text, client=kind))
        receiver = client.receiver("$Default", "0", 0, None, 1000)
        rows = 0
        while rows < events:
            found = receiver.read(events, 10)
            rows += batch(found, HUB, 0, of_rows).num_rows
        client.close()

    return read


def measured(read: Callable[[str, int], None], text: str, events: int) -> tuple[float, float]:
    """Events a second, and a second of CPU."""
    wall, cpu = time.perf_counter(), time.process_time()
    read(text, events)
    return events / (time.perf_counter() - wall), events / (time.process_time() - cpu)


def clients(console: Console, events: int) -> None:
    """Prints what the clients do."""
    table = Table("events of", "reader", "events/s", "events/s of CPU", "to the SDK alone")
    for size in (100, 1000):
        with served(1, events, size) as (text, _):
            base = 0.0
            for name, read in (
                ("Azure SDK alone", by_the_sdk),
                ("source, client sdk", by_ours("sdk")),
                ("source, client slim", by_ours("slim")),
            ):
                wall, cpu = measured(read, text, events)
                base = base or cpu
                cells = [f"{wall:,.0f}", f"{cpu:,.0f}", f"{cpu / base:.2f}"]
                table.add_row(f"{size} B", name, *cells)
    console.print(table)


def planning(console: Console, partitions: int) -> None:
    """Prints what it takes to ask for the bounds of all partitions."""
    table = Table("client", "partitions", "first, ms", "then, ms")
    with served(partitions, 10, 100) as (text, _):
        for kind in ("sdk", "slim"):
            client = opened(Connection(text=text, client=kind))
            times = []
            for _ in range(5):
                start = time.perf_counter()
                client.bounds(map(str, range(partitions)))
                times.append(1000 * (time.perf_counter() - start))
            client.close()
            table.add_row(kind, str(partitions), f"{times[0]:.0f}", f"{min(times[1:]):.0f}")
    console.print(table)


def stream(console: Console, kind: str, partitions: int, events: int) -> None:
    """Prints what a stream to a count takes under Spark."""
    from sparkbeam.eventhubs import EventHubsSource
    from sparkbeam.options import SparkBeamOptions
    from sparkbeam.session import obtain

    spark = obtain(SparkBeamOptions(["--spark_master=local[2]"]))
    spark.dataSource.register(EventHubsSource)
    with served(partitions, events, 100) as (text, pipe):
        frame = (
            spark.readStream.format("eventhubs")
            .option("connectionString", text)
            .option("client", kind)
            .option("startingPosition", "start")
            .option("maxEventsPerTrigger", str(partitions * events // 20))
            .load()
        )
        counted: list[int] = []
        query = (
            frame.writeStream.foreachBatch(lambda batch, number: counted.append(batch.count()))
            .trigger(availableNow=True)
            .start()
        )
        start = time.perf_counter()
        query.awaitTermination()
        seconds = time.perf_counter() - start
        assert sum(counted) == partitions * events, counted
        pipe.send("counts")
        counts = pipe.recv()
        reads = partitions * len(counted)
        planned = [progress["durationMs"]["latestOffset"] for progress in query.recentProgress]
    console.print(
        f"{kind}: {sum(counted):,} events of {partitions} partitions in {len(counted)} "
        f"micro-batches, {seconds:.1f} s; {reads} reads with {counts.receivers} receivers over "
        f"{counts.connections} connections; planning {sorted(planned)[len(planned) // 2]} ms"
    )
    spark.stop()


def main() -> None:
    """Runs what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000, help="of each partition")
    parser.add_argument("--partitions", type=int, default=32, help="whose bounds are asked for")
    parser.add_argument("--spark", choices=("sdk", "slim"), help="a stream over this client alone")
    arguments = parser.parse_args()
    console = Console()
    if arguments.spark:
        stream(console, arguments.spark, 4, arguments.events)
        return
    clients(console, arguments.events)
    planning(console, arguments.partitions)


if __name__ == "__main__":
    main()

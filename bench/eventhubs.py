"""Speed of reading event hubs: by the Azure SDK and by the source alone.

Run with ``python bench/eventhubs.py``. The server runs in a process of its own, on loopback, so
that the times are of the reader; a second of CPU is one of the process that reads, and so a figure
for a core.
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

from pyspark_eventhubs.amqp_client import AmqpClient
from pyspark_eventhubs.settings import ConnectionSettings
from pyspark_eventhubs.testing import EventHubsServer

HUB = "bench"


def serve(pipe: Any, events: int, size: int) -> None:
    """Runs a server with events in a partition until it is told to end."""
    with EventHubsServer({HUB: 1}) as server:
        bodies = (bytes(size) for _ in range(events))
        server.send(HUB, bodies, partition=0, properties={"kind": "click"})
        pipe.send(server.connection_string(HUB))
        pipe.recv()


@contextmanager
def served(serve: Callable[..., None], *arguments: Any) -> Iterator[tuple[str, Any]]:
    """A server in another process: its connection string, and a pipe to ask it over."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, *arguments), daemon=True)
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


def by_ours(text: str, events: int) -> None:
    """The data source's way: receivers of exact credit, events as Arrow columns."""
    from pyspark_eventhubs.event_rows import arrow_schema, batch, schema

    of_rows = arrow_schema(schema(event_time=False))
    client = AmqpClient(ConnectionSettings(text=text))
    receiver = client.receiver("$Default", "0", 0, None, 1000)
    rows = 0
    while rows < events:
        found = receiver.read(events, 10)
        rows += batch(found, HUB, 0, of_rows).num_rows
    client.close()


def measured(read: Callable[[str, int], None], text: str, events: int) -> tuple[float, float]:
    """Events a second, and a second of CPU."""
    wall, cpu = time.perf_counter(), time.process_time()
    read(text, events)
    return events / (time.perf_counter() - wall), events / (time.process_time() - cpu)


def clients(console: Console, events: int) -> None:
    """Prints what the clients do."""
    table = Table("events of", "reader", "events/s", "events/s of CPU", "to the SDK alone")
    for size in (100, 1000):
        with served(serve, events, size) as (text, _):
            base = 0.0
            for name, read in (
                ("Azure SDK alone", by_the_sdk),
                ("source", by_ours),
            ):
                wall, cpu = measured(read, text, events)
                base = base or cpu
                cells = [f"{wall:,.0f}", f"{cpu:,.0f}", f"{cpu / base:.2f}"]
                table.add_row(f"{size} B", name, *cells)
    console.print(table)


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000, help="of the partition")
    clients(Console(), parser.parse_args().events)


if __name__ == "__main__":
    main()

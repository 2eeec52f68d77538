"""Speed of reading event hubs: by the Azure SDK and by the source alone.

Run with ``python bench/eventhubs.py``. The server runs in a process of its own, on loopback, so
that the times are of the reader; a second of CPU is one of the process that reads, and so a figure
for a core. ``--part slow`` tells what a slow partition costs the others.
"""

import argparse
import multiprocessing
import multiprocessing.connection
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table

from pyspark_eventhubs.amqp_client import AmqpClient
from pyspark_eventhubs.planning import Planner
from pyspark_eventhubs.pool import Pool
from pyspark_eventhubs.positions import EventPosition
from pyspark_eventhubs.range_reader import Range, RangeReader
from pyspark_eventhubs.settings import ConnectionSettings
from pyspark_eventhubs.slow_partitions import Factors, RangeRead, SlowPartitions
from pyspark_eventhubs.source_options import SourceOptions
from pyspark_eventhubs.testing import EventHubsServer

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
        while (asked := pipe.recv()) != "end":
            server.slow_down(HUB, *asked)


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
        with served(1, events, size) as (text, _):
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


def slow(console: Console, partitions: int, seconds: float) -> None:
    """Prints what a partition that is ten times slower costs the others."""
    table = Table("slow partition", "slow_partitions", "events/s of the others", "relative")
    base = 0.0
    for is_slow, threshold in ((False, 0.0), (True, None), (True, 0.0)):
        with served(partitions, round(1000 * (seconds + 6)), 100) as (text, pipe):
            for partition in range(partitions):
                pipe.send((partition, 100.0 if is_slow and partition == 0 else 1000.0))
            found = _others(text, threshold, 100 * partitions, seconds)
        base = base or found
        table.add_row(
            "10 times slower" if is_slow else "none",
            "None" if threshold is None else f"SlowPartitions({threshold})",
            f"{found:,.0f}",
            f"{found / base:.2f}",
        )
    console.print(table)


def _others(text: str, threshold: float | None, limit: int, seconds: float) -> float:
    """Events a second of all partitions but the first, in micro-batches with a task for each."""
    options = SourceOptions.parse({"connectionString": text, "startingPosition": "start"})
    planner = Planner(options)
    factors = Factors(SlowPartitions(threshold or 0))
    begin = planner.starts(EventPosition.start())
    pools = {partition: Pool() for partition in begin}
    count, number, since = 0, 0, 0.0

    def read(partition: str, end: int) -> RangeRead:
        reader = RangeReader(options, Range(partition, begin[partition], end), pools[partition])
        found = sum(map(len, reader.events()))
        return RangeRead(number, partition, found, reader.seconds)

    with ThreadPoolExecutor(len(begin)) as tasks:
        while not since or time.perf_counter() - since < seconds:
            number += 1
            if number == 10:  # It has settled.
                count, since = 0, time.perf_counter()
            given = {} if threshold is None else factors.current(begin)
            ends = planner.up_to(begin, limit, given)
            for done in list(tasks.map(read, ends, ends.values())):
                count += done.events if done.partition != "0" else 0
                factors.record(done)
            begin = ends
    found = count / (time.perf_counter() - since)
    for pool in pools.values():
        pool.close()
    return found


PARTS = ("clients", "slow")


def main() -> None:
    """Runs what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000, help="of each partition")
    parser.add_argument("--seconds", type=float, default=5, help="of each reading of part slow")
    parser.add_argument("--part", choices=PARTS, action="append", help="default: clients")
    arguments = parser.parse_args()
    console = Console()
    for part in arguments.part or PARTS[:1]:
        match part:
            case "clients":
                clients(console, arguments.events)
            case "slow":
                slow(console, 8, arguments.seconds)


if __name__ == "__main__":
    main()

"""The same pipelines over Kafka and over AMQP with both clients, with the same events.

Usage: ``endpoints_program.py FOLDER READER...``, of the names in ``READERS``. What each
gives is in JSON under the folder. A broker of Kafka stands in for the Kafka endpoint of the
namespace.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from broker import Broker, NoBrokerError
from happenings import (
    AFTER,
    BEFORE,
    DELAY,
    FIRED,
    HUB,
    LAST,
    LATENESS,
    PARTITIONS,
    WINDOW,
    Event,
)
from kafka_options import BASE

from pyspark_eventhubs.settings import ConnectionSettings
from pyspark_eventhubs.testing import EventHubsServer
from sparkbeam.errors import ConfigurationError
from sparkbeam.io import WriteToSpark
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.spark.session import obtain
from sparkbeam_eventhubs import (
    EventHubsEvent,
    EventPosition,
    ReadFromEventHubs,
    WriteToEventHubs,
    kafka_options,
)

EMULATOR_PORT = 9092
"""Of an emulator's Kafka endpoint."""

READERS: Mapping[str, Mapping[str, Any]] = {
    "kafka": {"endpoint": "kafka"},
    "amqp": {},
}
SCHEMA = "user string, start bigint, timing string, events bigint, amount bigint"
_SECONDS = 120


def timed(event: EventHubsEvent) -> TimestampedValue:
    """User and amount, at the time that the sender has told."""
    at = Timestamp(micros=int(event.properties["at"] or 0) * 1000)
    return TimestampedValue((event.partition_key, (1, int(event.body))), at)


class Rows(beam.DoFn):
    """The rows of panes."""

    def process(
        self,
        element: tuple[str, tuple[int, int]],
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterator[dict[str, Any]]:
        user, (events, amount) = element
        yield {
            "user": user,
            "start": int(window.start.micros // 1000),
            "timing": beam.utils.windowed_value.PaneInfoTiming.to_string(pane.timing),
            "events": events,
            "amount": amount,
        }


class Sums(beam.CombineFn):
    """How many, and how much."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add_input(self, sums: tuple[int, int], one: tuple[int, int]) -> tuple[int, int]:
        return sums[0] + one[0], sums[1] + one[1]

    def merge_accumulators(self, several: Any) -> tuple[int, int]:
        events, amounts = zip(*several, strict=True)
        return sum(events), sum(amounts)

    def extract_output(self, sums: tuple[int, int]) -> tuple[int, int]:
        return sums


def stream(name: str, folder: Path) -> Any:
    """Starts the stream of a reader."""
    options = PipelineOptions(
        [*BASE, "--streaming", "--shards=2", f"--checkpoint_location={folder / name}-checkpoint"]
    )
    pipeline = beam.Pipeline(options=options)
    _ = (
        pipeline
        | ReadFromEventHubs(
            "env:HUB",
            HUB,
            consumer_group=name,
            starting_position=EventPosition.start(),
            watermark_delay=DELAY,
            idle_timeout=None,
            max_events_per_trigger=250,
            **READERS[name],
        )
        | beam.Map(timed).with_output_types(tuple[str, tuple[int, int]])
        | beam.WindowInto(
            FixedWindows(WINDOW),
            trigger=AfterWatermark(late=AfterCount(1)),
            accumulation_mode=AccumulationMode.DISCARDING,
            allowed_lateness=LATENESS,
        )
        | beam.CombinePerKey(Sums())
        | beam.ParDo(Rows())
        | WriteToSpark("json", {"path": str(folder / name)}, SCHEMA)
    )
    return pipeline.run()


def rows(folder: Path) -> list[dict[str, Any]]:
    """Those that a stream has written so far."""
    return [
        json.loads(line) for path in folder.glob("*.json") for line in path.read_text().splitlines()
    ]


def until(condition: Callable[[], bool], what: str) -> None:
    """Waits for something."""
    end = time.monotonic() + _SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.1)


class Producer:
    """Sends events to the topic, with times of theirs, as no sink of Spark does.

    Args:
        session: whose JVM has Kafka's classes.
    """

    def __init__(self, session: Any) -> None:
        self._java = session._jvm
        options = self._java.java.util.HashMap()
        for key, value in kafka_options.connected(
            ConnectionSettings(text="env:HUB", hub=HUB)
        ).items():
            options.put(key.removeprefix("kafka."), value)
        for kind in ("key", "value"):
            serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
            options.put(f"{kind}.serializer", serializer)
        self._kafka = self._java.org.apache.kafka
        self._producer = self._kafka.clients.producer.KafkaProducer(options)

    def send(self, events: list[Event]) -> None:
        """Sends them, each to its partition, and waits until they are there."""
        for event in events:
            headers = self._java.java.util.ArrayList()
            header = self._kafka.common.header.internals.RecordHeader
            headers.add(header("at", bytearray(str(event.at).encode())))
            record = self._kafka.clients.producer.ProducerRecord(
                HUB,
                event.partition,
                event.enqueued,
                bytearray(event.user.encode()),
                bytearray(event.body),
                headers,
            )
            self._producer.send(record)
        self._producer.flush()


def enqueue(server: EventHubsServer, events: list[Event]) -> None:
    """Sends events to the hub."""
    for event in events:
        server.send(
            HUB,
            [event.body],
            partition=event.partition,
            partition_key=event.user,
            properties={"at": event.at},
            enqueued=datetime.fromtimestamp(event.enqueued / 1000, UTC),
        )


def streams(folder: Path, server: EventHubsServer, names: list[str]) -> None:
    """Runs the streams while events come: some, and when these are done with, late ones."""
    producer = Producer(obtain(SparkBeamOptions(BASE[1:])))

    def send(events: list[Event]) -> None:
        producer.send(events)
        enqueue(server, events)

    def are_done_with(start: int) -> bool:
        return all(any(row["start"] >= start for row in rows(folder / n)) for n in names)

    send(BEFORE)
    running = [stream(name, folder) for name in names]
    until(lambda: are_done_with(FIRED), "the windows before the late events")
    send(AFTER)
    until(lambda: are_done_with(LAST), "the windows after them")
    for result in running:
        result.drain()
    for result in running:
        result.wait_until_finish()


def plain(event: EventHubsEvent) -> str:
    """What all endpoints tell of an event."""
    return json.dumps(
        [
            event.partition,
            event.sequence_number,
            event.body.decode(),
            event.partition_key,
            event.enqueued_time.micros // 1000,
            {key: value for key, value in event.properties.items() if "sparkbeam" not in key},
        ]
    )


def batches(folder: Path, names: list[str]) -> None:
    """What all hubs have, after something was sent to some of them."""
    with beam.Pipeline(options=PipelineOptions(BASE)) as pipeline:
        texts = pipeline | beam.Create([f"{number}" for number in range(50)])
        for name in names:
            _ = texts | f"To {name}" >> WriteToEventHubs(
                "env:HUB",
                f"out-{name}",
                partition_id=_partition,
                properties=_properties,
                **READERS[name],
            )
    with beam.Pipeline(options=PipelineOptions(BASE)) as pipeline:
        for name in names:
            for hub, kind in ((HUB, "read"), (f"out-{name}", "written")):
                _ = (
                    pipeline
                    | f"{kind} {name}" >> ReadFromEventHubs("env:HUB", hub, **READERS[name])
                    | f"plain {kind} {name}" >> beam.Map(plain)
                    | f"save {kind} {name}"
                    >> beam.io.WriteToText(f"{folder}/{name}.{kind}", shard_name_template="")
                )


def _partition(text: str) -> int:
    return int(text) % 3


def _properties(text: str) -> dict[str, Any]:
    return {"n": int(text), "half": int(text) / 2, "even": int(text) % 2 == 0, "name": f"ä{text}"}


def main(folder: Path, names: list[str]) -> None:
    hubs = dict.fromkeys((HUB, *(f"out-{name}" for name in names)), PARTITIONS)
    with EventHubsServer(hubs) as server:
        os.environ["HUB"] = server.connection_string()
        try:
            login = "$ConnectionString", server.connection_string()
            with Broker(folder / "broker", PARTITIONS, login=login, port=EMULATOR_PORT):
                streams(folder, server, names)
                batches(folder, names)
        except NoBrokerError as error:
            sys.exit(f"no broker: {error}")
        except ConfigurationError as error:
            if "that Maven has the packages" not in str(error):
                raise
            sys.exit(f"no broker: {error}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

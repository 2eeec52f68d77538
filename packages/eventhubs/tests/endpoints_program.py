"""Send the same elements over Kafka and over AMQP, and read back what has come.

Usage: ``endpoints_program.py FOLDER ENDPOINT...``. The events of each endpoint are in a file of
its name in the folder, a line of JSON each. A broker of Kafka stands in for the Kafka endpoint of
the namespace.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from broker import Broker, NoBrokerError
from kafka_options import BASE

from pyspark_eventhubs.testing import EventHubsServer
from sparkbeam.errors import ConfigurationError
from sparkbeam_eventhubs import EventHubsEvent, ReadFromEventHubs, WriteToEventHubs

EMULATOR_PORT = 9092
"""Of an emulator's Kafka endpoint."""

PARTITIONS = 4


def plain(event: EventHubsEvent) -> str:
    """Facts of an event that all endpoints have."""
    properties = {key: value for key, value in event.properties.items() if "sparkbeam" not in key}
    return json.dumps([event.partition, event.body.decode(), event.partition_key, properties])


def _partition(text: str) -> int:
    return int(text) % 3


def _properties(text: str) -> dict[str, Any]:
    return {"n": int(text), "half": int(text) / 2, "even": int(text) % 2 == 0, "name": f"ä{text}"}


def run(folder: Path, endpoints: list[str]) -> None:
    with beam.Pipeline(options=PipelineOptions(BASE)) as pipeline:
        texts = pipeline | beam.Create([f"{number}" for number in range(50)])
        for name in endpoints:
            _ = texts | f"To {name}" >> WriteToEventHubs(
                "env:HUB",
                f"out-{name}",
                endpoint=name,
                partition_id=_partition,
                properties=_properties,
            )
    with beam.Pipeline(options=PipelineOptions(BASE)) as pipeline:
        for name in endpoints:
            events = pipeline | name >> ReadFromEventHubs("env:HUB", f"out-{name}", endpoint=name)
            lines = events | f"Plain {name}" >> beam.Map(plain)
            path = str(folder / name)
            _ = lines | f"Save {name}" >> beam.io.WriteToText(path, shard_name_template="")


def main(folder: Path, endpoints: list[str]) -> None:
    hubs = dict.fromkeys((f"out-{name}" for name in endpoints), PARTITIONS)
    with EventHubsServer(hubs) as server:
        text = os.environ["HUB"] = server.connection_string()
        try:
            login = "$ConnectionString", text
            with Broker(folder / "broker", PARTITIONS, login=login, port=EMULATOR_PORT):
                run(folder, endpoints)
        except NoBrokerError as error:
            sys.exit(f"no broker: {error}")
        except ConfigurationError as error:
            if "that Maven has the packages" not in str(error):
                raise
            sys.exit(f"no broker: {error}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

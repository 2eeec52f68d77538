"""Messages written in batch and read as a stream, with rows for what is read below FOLDER.

Usage: pubsub_program.py FOLDER TOPIC SUBSCRIPTION
"""

import sys
from typing import Any

import apache_beam as beam
from apache_beam.io import ReadFromPubSub, WriteToPubSub
from apache_beam.io.gcp.pubsub import PubsubMessage
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import TimestampedValue

from sparkbeam import SparkRunner
from sparkbeam.io import WriteToSpark

ID, TIME = "id", "at"


def pipeline(*options: str) -> beam.Pipeline:
    given = PipelineOptions(["--spark_master=local[2]", *options])
    return beam.Pipeline(runner=SparkRunner(), options=given)


def write(topic: str) -> None:
    """Writes data, data with an id and a timestamp, and messages in order."""
    with pipeline() as p:
        _ = p | beam.Create([b"plain"]) | WriteToPubSub(topic)
        _ = (
            p
            | "Timed" >> beam.Create([b"a", b"b"])
            | beam.Map(lambda data: TimestampedValue(data, 1_000_000_000.5))
            | "With an id" >> WriteToPubSub(topic, id_label=ID, timestamp_attribute=TIME)
        )
        messages = [PubsubMessage(b"c", {"user": "ada"}, ordering_key="k")]
        _ = (
            p
            | "Ordered" >> beam.Create(messages)
            | "In order" >> WriteToPubSub(topic, True, publish_with_ordering_key=True)
        )


def row(message: PubsubMessage, timestamp: Any = beam.DoFn.TimestampParam) -> dict[str, Any]:
    """Describe a message."""
    names = ",".join(sorted(message.attributes))
    key = message.ordering_key
    return {"data": message.data.decode(), "at": timestamp.micros, "names": names, "key": key}


def read(subscription: str, folder: str) -> None:
    """Reads what there is."""
    checkpoint = f"--checkpoint_location={folder}/checkpoint"
    with pipeline("--trigger=available-now", checkpoint) as p:
        _ = (
            p
            | ReadFromPubSub(None, subscription, ID, True, TIME)
            | beam.Map(row)
            | WriteToSpark(
                "json",
                {"path": f"{folder}/read"},
                "data string, at bigint, names string, key string",
            )
        )


def main(folder: str, topic: str, subscription: str) -> None:
    write(topic)
    read(subscription, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])

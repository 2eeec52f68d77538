"""A stream that counts records of Kafka in windows, and kills itself and its JVM at a point.

Usage: ``windows_program.py CONFIG FROM SINK TO CHECKPOINT POINT NUMBER``. The sink is a topic,
which is written in transactions, or a folder of Parquet. It dies at a point of
:mod:`transactions_program` in the first transaction from the micro-batch with that number on, or
at one of :mod:`sinks_program` that it has passed as often before.
"""

import json
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import sinks_program
import transactions_program
from apache_beam.io.kafka import ReadFromKafka, WriteToKafka
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows
from kafka_options import BASE

from sparkbeam.io import WriteToSpark

KAFKA, PARQUET = SINKS = ("kafka", "parquet")
KEYS = 4
WINDOW = 2
FILES = (
    ("after the sinks", 0),
    ("between note and moves", 0),
    ("before Spark's commit", 1),
    ("between moves", 0),
    ("between moves and mark", 0),
)
"""Points of the kills of a stream into files, in turn."""


def kills(sink: str, count: int) -> list[tuple[str, int]]:
    """Points and numbers, as runs get there in turn."""
    points = transactions_program.POINTS
    if sink == KAFKA:
        return [(points[at % len(points)], at // len(points)) for at in range(count)]
    return [FILES[at % len(FILES)] for at in range(count)]


def main(config: dict[str, str], source: str, sink: str, target: str, checkpoint: str) -> None:
    options = ["--streaming", "--trigger=available-now", "--max_batch_elements=10"]
    options.append(f"--checkpoint_location={checkpoint}")
    timeout = str(transactions_program.TIMEOUT_MS)
    producer = {**config, "transactional.id": target, "transaction.timeout.ms": timeout}
    with beam.Pipeline(options=PipelineOptions([*BASE, *options])) as pipeline:
        counts = (
            pipeline
            | ReadFromKafka(
                {**config, "auto.offset.reset": "earliest"},
                [source],
                timestamp_policy=ReadFromKafka.create_time_policy,
            )
            | "Key" >> beam.Map(lambda record: (int(record[1]) % KEYS, 1))
            | beam.WindowInto(FixedWindows(WINDOW))
            | beam.CombinePerKey(sum)
            | "Count" >> beam.Map(counted)
        )
        if sink == KAFKA:
            pairs = counts | "Record" >> beam.Map(lambda row: (None, json.dumps(row).encode()))
            _ = pairs | WriteToKafka(producer, target)
        else:
            schema = "window bigint, number bigint, records bigint"
            rows = counts | "Row" >> beam.Map(lambda row: dict(zip(NAMES, row, strict=True)))
            _ = rows | WriteToSpark("parquet", {"path": target}, schema)


NAMES = ("window", "number", "records")


def counted(pair: tuple[int, int], window: Any = beam.DoFn.WindowParam) -> list[int]:
    return [int(window.start), *pair]


if __name__ == "__main__":
    config, source, sink, target, checkpoint, point, number = sys.argv[1:]
    if sink == KAFKA:
        transactions_program.kill_at(point, int(number))
    else:
        sinks_program.kill_at(point, int(number), Path(target))
    main(json.loads(config), source, sink, target, checkpoint)

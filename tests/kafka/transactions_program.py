"""A stream from a topic to another in transactions, which kills itself and its JVM at a point.

Usage: ``transactions_program.py CONFIG FROM TO CHECKPOINT [PASSED]``. With the last one it dies
when its sink has committed another micro-batch after so many, and Spark has not. It is to lead a
group of processes.
"""

import json
import os
import signal
import sys
from itertools import count
from typing import Any

import apache_beam as beam
from apache_beam.io.kafka import ReadFromKafka, WriteToKafka
from apache_beam.options.pipeline_options import PipelineOptions
from kafka_program import BASE

from sparkbeam.streaming.spark_sinks import SparkSinks


def kill_after(passed: int) -> None:
    """Make this process die once the sinks have delivered a number of micro-batches and one."""
    deliver: Any = SparkSinks.deliver
    calls = count()

    def killing(*given: Any, **more: Any) -> None:
        deliver(*given, **more)
        if next(calls) == passed:
            os.killpg(0, signal.SIGKILL)

    SparkSinks.deliver = killing  # type: ignore[method-assign]


def main(config: dict[str, str], source: str, target: str, checkpoint: str) -> None:
    options = ["--streaming", "--trigger=available-now", "--max_batch_elements=10"]
    options.append(f"--checkpoint_location={checkpoint}")
    with beam.Pipeline(options=PipelineOptions([*BASE, *options])) as pipeline:
        _ = (
            pipeline
            | ReadFromKafka({**config, "auto.offset.reset": "earliest"}, [source])
            | beam.Map(lambda record: (record[1], record[1]))
            | WriteToKafka({**config, "transactional.id": "copies"}, target)
        )


if __name__ == "__main__":
    if len(sys.argv) > 5:
        kill_after(int(sys.argv[5]))
    main(json.loads(sys.argv[1]), *sys.argv[2:5])

"""A stream from a topic to another in transactions, which kills itself and its JVM at a point.

It also counts the records in windows, into Parquet files of the folder CHECKPOINT-counts.

Usage: ``transactions_program.py CONFIG FROM TO CHECKPOINT POINT EPOCH``. It dies at one of
``POINTS`` in the micro-batch with that number, and is to lead a group of processes.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

import apache_beam as beam
from apache_beam.io.kafka import ReadFromKafka, WriteToKafka
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows
from kafka_options import BASE

from sparkbeam.io import WriteToSpark
from sparkbeam.streaming.spark_sinks import SparkSinks
from sparkbeam_kafka import write as kafka_write
from sparkbeam_kafka.transactions import TransactionWriter

BEGUN, SENT, NUMBERED = "begun", "sent", "numbered"
COMMITTED, DELIVERED = "committed", "delivered"
POINTS = (BEGUN, SENT, NUMBERED, COMMITTED, DELIVERED)
"""Points of a transaction in their order; the last one is between the sink and Spark's commit."""

ENOUGH = 5
"""How many records have been sent at the point SENT."""

TIMEOUT_MS = 10_000
WINDOW, KEYS = 2, 4
"""Seconds of a window, and the number of keys, which are remainders."""


class KillingWriter(TransactionWriter):
    """Kills the driver, its JVM and the task at a point of the transaction of a micro-batch.

    Args:
        point: of a transaction.
        epoch: the number of the micro-batch, or of one before it without a transaction.
        group: of the processes of the driver.
    """

    def __init__(self, point: str, epoch: int, group: int, *given: Any) -> None:
        super().__init__(*given)
        self._point = point
        self._dies_in = epoch
        self._group = group
        self._sent = 0

    def open(self, partition_id: int, epoch_id: int) -> bool:
        is_open = super().open(partition_id, epoch_id)
        if is_open and epoch_id >= self._dies_in:
            self._at(BEGUN)
            self._producer = _Watched(self._producer, self._at)
        return is_open

    def process(self, element: Mapping[str, Any]) -> None:
        super().process(element)
        self._sent += 1
        if self._sent == ENOUGH and isinstance(self._producer, _Watched):
            self._producer.flush(30)
            self._at(SENT)

    def _at(self, point: str) -> None:
        if point == self._point:
            os.killpg(self._group, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)


class _Watched:
    """A producer that tells when its transaction is about to be committed, and when it is."""

    def __init__(self, producer: Any, at: Any) -> None:
        self._producer = producer
        self._at = at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def commit_transaction(self, seconds: float) -> None:
        self._at(NUMBERED)
        self._producer.commit_transaction(seconds)
        self._at(COMMITTED)


def kill_at(point: str, epoch: int) -> None:
    """Make this process die at a point of a micro-batch."""
    deliver: Any = SparkSinks.deliver

    def killing(self: Any, batch: Any, present: set[int], batch_id: int) -> None:
        deliver(self, batch, present, batch_id)
        if present and batch_id >= epoch:
            os.killpg(0, signal.SIGKILL)

    if point == DELIVERED:
        SparkSinks.deliver = killing  # type: ignore[method-assign]
        return
    group = os.getpgid(0)
    made: Any = lambda *given: KillingWriter(point, epoch, group, *given)  # noqa: E731
    kafka_write.TransactionWriter = made  # type: ignore[attr-defined]


def main(config: dict[str, str], source: str, target: str, checkpoint: str) -> None:
    options = ["--streaming", "--trigger=available-now", "--max_batch_elements=10"]
    options.append(f"--checkpoint_location={checkpoint}")
    producer = {**config, "transactional.id": "copies", "transaction.timeout.ms": str(TIMEOUT_MS)}
    with beam.Pipeline(options=PipelineOptions([*BASE, *options])) as pipeline:
        earliest = {**config, "auto.offset.reset": "earliest"}
        policy = ReadFromKafka.create_time_policy
        records = pipeline | ReadFromKafka(earliest, [source], timestamp_policy=policy)
        copies = records | beam.Map(lambda record: (record[1], record[1]))
        _ = copies | WriteToKafka(producer, target)
        counts = (
            records
            | "Key" >> beam.Map(lambda record: (int(record[1]) % KEYS, 1))
            | beam.WindowInto(FixedWindows(WINDOW))
            | beam.CombinePerKey(sum)
            | "Row" >> beam.Map(counted)
        )
        path = {"path": f"{checkpoint}-counts"}
        _ = counts | WriteToSpark("parquet", path, "start bigint, key bigint, records bigint")


def counted(pair: tuple[int, int], window: Any = beam.DoFn.WindowParam) -> dict[str, int]:
    return {"start": int(window.start), "key": pair[0], "records": pair[1]}


if __name__ == "__main__":
    kill_at(sys.argv[5], int(sys.argv[6]))
    main(json.loads(sys.argv[1]), *sys.argv[2:5])

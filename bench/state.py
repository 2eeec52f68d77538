"""The state store of streaming layers: what an access costs, by way and by size.

Run with ``python bench/state.py``. One query with two micro-batches: the first fills the
state, the second is measured. It compares ways to read and write the state of many keys.
"""

import logging
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from places import session_on
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from rich.console import Console
from rich.table import Table

from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.state.store import ByteMap, PipelinedSparkMap, SparkMap

KEYS = [b"key %d" % number for number in range(50_000)]
VALUE = b"x" * 100
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SCHEMA = "task string, seconds double"


def one_by_one(entries: ByteMap) -> None:
    """An access for each read and write of a key."""
    for key in KEYS:
        entries.get([key])
        entries.put({key: VALUE})


def all_at_once(entries: ByteMap) -> None:
    """An entry for each key, many accesses under way."""
    entries.get(KEYS)
    entries.put(dict.fromkeys(KEYS, VALUE))


def paged(entries: ByteMap) -> None:
    """Records in pages."""
    state = ShardState(entries)
    stage = state.stage("keys")
    stage.prefetch(KEYS)
    for key in KEYS:
        record = stage.record(key)
        record.get(b"cell")
        record.set(b"cell", VALUE)
    state.save()


Task = tuple[str, Callable[..., ByteMap], Callable[[ByteMap], None]]

WAYS: list[Task] = [
    ("a call for each access", SparkMap, one_by_one),
    ("an entry for each key, pipelined", PipelinedSparkMap, all_at_once),
    ("pages, pipelined", PipelinedSparkMap, paged),
]


class Measure(StatefulProcessor):
    """Fills the state in the first micro-batch, measures in the second."""

    def init(self, handle: Any) -> None:
        """Makes two maps, so that the ways do not disturb each other."""
        self._keys = handle.getMapState("keys", "key binary", "value binary")
        self._state = handle.getMapState("state", "key binary", "value binary")

    def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Iterator[Row]:
        """Runs the tasks of the micro-batch."""
        first = [row.step for row in rows] == [0]
        for name, map_class, task in WAYS[1:] if first else WAYS:
            by_key = task in (one_by_one, all_at_once)
            entries = map_class(self._keys if by_key else self._state)
            start = time.perf_counter()
            task(entries)
            if not first:
                yield Row(task=name, seconds=time.perf_counter() - start)

    def close(self) -> None:
        """There is nothing to close."""


def two_batches(spark: Any, processor: StatefulProcessor) -> dict[str, list[float]]:
    """Seconds of the tasks that a processor tells of, by name, in a query of two micro-batches."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", PROVIDER)
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    with tempfile.TemporaryDirectory() as folder:
        source = str(Path(folder, "source"))
        for step in range(2):
            rows = spark.createDataFrame([("shard", step)], "shard string, step int")
            rows.coalesce(1).write.mode("append").parquet(source)
            stream = spark.readStream.schema("shard string, step int").parquet(source)
            query = (
                stream.groupBy("shard")
                .transformWithState(processor, SCHEMA, "Append", "None")
                .writeStream.format("parquet")
                .option("path", str(Path(folder, "out")))
                .option("checkpointLocation", str(Path(folder, "checkpoint")))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
        found = defaultdict(list)
        for name, seconds in spark.read.parquet(str(Path(folder, "out"))).collect():
            found[name].append(seconds)
    return found


def main() -> None:
    """Runs the query and prints the table."""
    logging.disable(logging.WARNING)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with session_on("local") as spark:
        found = two_batches(spark, Measure())
    table = Table("task", "ms", "µs per key")
    for name, _, _ in WAYS:
        (seconds,) = found[name]
        table.add_row(name, f"{seconds * 1e3:,.1f}", f"{seconds / len(KEYS) * 1e6:,.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()

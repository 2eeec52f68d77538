"""The maps over Spark's state store, in queries that stop and start again."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.state.store import (
    ByteMap,
    MemoryMap,
    PipelinedSparkMap,
    SparkMap,
    spark_map,
)

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
MAPS = {"per call": SparkMap, "pipelined": PipelinedSparkMap}
KEYS = 1000
ODD_KEYS = [b"", b"\0", b"\xff\xfe\0", b"k" * 100_000, *(bytes([byte]) for byte in range(256))]


@pytest.fixture(scope="module")
def streaming(spark: Any) -> Iterator[Any]:
    settings = {
        "spark.sql.streaming.stateStore.providerClass": PROVIDER,
        "spark.sql.shuffle.partitions": "2",
    }
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield spark
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


class Steps(StatefulProcessor):
    """Calls a function with the kind of map, the number of the step, and the map."""

    def __init__(self, step: Any) -> None:
        self._step = step

    def init(self, handle: Any) -> None:
        self._state = handle.getMapState("state", "key binary", "value binary")

    def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Iterator[Row]:
        numbers = [row.step for row in rows]
        for number in sorted(numbers):
            self._step(number, MAPS[key[0]](self._state))
            yield Row(kind=key[0], step=number)

    def close(self) -> None:
        pass


def run(spark: Any, folder: Path, step: Any, steps: int, kinds: Iterable[str] = MAPS) -> None:
    """Runs each step for each kind of map, in a query of its own that goes on from the last."""
    source, out = folder / "source", folder / "out"
    source.mkdir()
    for number in range(steps):
        rows = [(kind, number) for kind in kinds]
        spark.createDataFrame(rows, "kind string, step int").coalesce(1).write.mode(
            "append"
        ).parquet(str(source))
        stream = spark.readStream.schema("kind string, step int").parquet(str(source))
        query = (
            stream.groupBy("kind")
            .transformWithState(Steps(step), "kind string, step int", "Append", "None")
            .writeStream.format("parquet")
            .option("path", str(out))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
    done = [tuple(row) for row in spark.read.parquet(str(out)).collect()]
    assert sorted(done) == sorted((kind, number) for kind in kinds for number in range(steps))


def value(number: int, version: int) -> bytes:
    return b"" if number % 10 == 0 else b"%d.%d" % (number, version) * (number % 30)


def contract(step: int, entries: ByteMap) -> None:
    """What a map has to do, in three steps."""
    keys = [b"key %d" % number for number in range(KEYS)]
    if step == 0:
        assert entries.get([b"missing", b"", b"missing"]) == [None] * 3
        assert entries.get([]) == []
        entries.put({})
        entries.put({key: value(number, 0) for number, key in enumerate(keys)})
        entries.put({key: key for key in ODD_KEYS})
        entries.delete([b"missing"])
    if step == 1:
        assert entries.get(keys) == [value(number, 0) for number in range(KEYS)]
        assert entries.get([b"missing", *ODD_KEYS]) == [None, *ODD_KEYS]
        entries.delete(keys[::2])
        entries.put({key: value(number, 1) for number, key in enumerate(keys) if number % 3 == 0})
    if step >= 1:
        expected = [
            value(number, 1) if number % 3 == 0 else value(number, 0) if number % 2 else None
            for number in range(KEYS)
        ]
        assert entries.get(keys) == expected


def large_values(step: int, entries: ByteMap) -> None:
    large = {b"large %d" % number: bytes([number]) * 100_000 for number in range(200)}
    large[b"largest"] = bytes(range(256)) * 40_000
    if step == 0:
        entries.put(large)
    assert entries.get(list(large)) == list(large.values())
    assert entries.get([b"largest", b"none", b"largest"])[1:] == [None, large[b"largest"]]


def pages(step: int, entries: ByteMap) -> None:
    state = ShardState(entries, cache_bytes=100_000)
    assert state.value("step") == (step - 1 if step else None)
    state.set_value("step", step)
    stage = state.stage("stage")
    for number in range(step * 500, step * 500 + 2000):
        record = stage.record(b"key %d" % number)
        record.set(b"sum", record.get(b"sum", 0) + 1)
        if number % 100 == 0:
            record.bag(b"bag").append([b"x" * 1000] * 100)
            record.ordered(b"ordered").add((stamp, b"y" * 100) for stamp in range(1000))
        record.set_timer(b"timer", 0, step * 1000 + number, number, None)
    state.save()
    stage = ShardState(entries).stage("stage")
    assert stage.size[0] == 2000 + 500 * step
    assert stage.next_due(0) == 0
    expected = min(step + 1, 4)
    assert stage.record(b"key 1900").get(b"sum") == expected
    assert len(list(stage.record(b"key 1900").bag(b"bag"))) == 100 * expected
    middle = stage.record(b"key 1900").ordered(b"ordered").range(500, 502)
    assert [stamp for stamp, _ in middle] == [500] * expected + [501] * expected


def test_maps_keep_their_entries_over_restarts(streaming: Any, tmp_path: Path) -> None:
    run(streaming, tmp_path, contract, 3)


def test_maps_take_large_values(streaming: Any, tmp_path: Path) -> None:
    run(streaming, tmp_path, large_values, 2)


def test_pages_keep_their_records_over_restarts(streaming: Any, tmp_path: Path) -> None:
    run(streaming, tmp_path, pages, 3, ["pipelined"])


def failure(step: int, entries: ByteMap) -> None:
    if isinstance(entries, PipelinedSparkMap):
        entries.put({b"key": b"value"})
        name, entries._name = entries._name, "unknown"
        with pytest.raises(PySparkRuntimeError, match="unknown"):
            entries.put({b"%d" % number: b"" for number in range(1000)})
        entries._name = name
        assert entries.get([b"key", b"1"]) == [b"value", None]


def test_a_failed_request_leaves_the_client_usable(streaming: Any, tmp_path: Path) -> None:
    run(streaming, tmp_path, failure, 1)


def test_this_version_of_pyspark_allows_pipelining(streaming: Any, tmp_path: Path) -> None:
    def chosen(step: int, entries: ByteMap) -> None:
        if isinstance(entries, SparkMap):
            assert type(spark_map(entries._state)) is PipelinedSparkMap

    run(streaming, tmp_path, chosen, 1)


def test_without_the_client_s_private_parts_the_public_ones_do() -> None:
    assert type(spark_map(object())) is SparkMap


def test_a_map_in_memory_does_as_they_do() -> None:
    entries = MemoryMap()
    for step in range(3):
        contract(step, entries)

"""The maps over Spark's state store, in queries that stop and start again."""

import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from sparkbeam.spark.capabilities import settings_for_now
from sparkbeam.upstream.spark import has_row_state
from sparkbeam.worker.state.store import (
    ByteMap,
    MemoryMap,
    PipelinedSparkMap,
    SparkMap,
    spark_map,
)

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
pytestmark = pytest.mark.skipif(
    not has_row_state(), reason="this Spark passes state no rows; the suites of streaming use it"
)

MAPS: dict[str, Any] = {"per call": SparkMap, "pipelined": PipelinedSparkMap}
KEYS = 1000
ODD_KEYS = [b"", b"\0", b"\xff\xfe\0", b"k" * 100_000, *(bytes([byte]) for byte in range(256))]


@pytest.fixture(scope="module")
def streaming(spark: Any) -> Iterator[Any]:
    settings = {
        "spark.sql.streaming.stateStore.providerClass": PROVIDER,
        "spark.sql.shuffle.partitions": "2",
    }
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with settings_for_now(spark, settings):
        yield spark
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


class Steps(StatefulProcessor):
    """Calls each behaviour with the number of the step and the map, and tells its error."""

    def init(self, handle: Any) -> None:
        self._state = handle.getMapState("state", "key binary", "value binary")

    def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Iterator[Row]:
        behaviour, kind = key
        for number in sorted(row.step for row in rows):
            error = ""
            try:
                BEHAVIOURS[behaviour][0](number, MAPS[kind](self._state))
            except Exception:
                error = traceback.format_exc()
            yield Row(behaviour=behaviour, kind=kind, step=number, error=error)

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def errors(
    streaming: Any, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[tuple[str, int], str]]:
    """The errors of each behaviour by kind of map and step, which is a query that goes on."""
    spark, folder = streaming, tmp_path_factory.mktemp("store")
    source, out = folder / "source", folder / "out"
    source.mkdir()
    for number in range(max(steps for _, _, steps in BEHAVIOURS.values())):
        rows = [
            (behaviour, kind, number)
            for behaviour, (_, kinds, steps) in BEHAVIOURS.items()
            for kind in kinds
            if number < steps
        ]
        columns = "behaviour string, kind string, step int"
        frame = spark.createDataFrame(rows, columns).coalesce(1)
        frame.write.mode("append").parquet(str(source))
        query = (
            spark.readStream.schema(columns)
            .parquet(str(source))
            .groupBy("behaviour", "kind")
            .transformWithState(Steps(), f"{columns}, error string", "Append", "None")
            .writeStream.format("parquet")
            .option("path", str(out))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
    found: dict[str, dict[tuple[str, int], str]] = {}
    for row in spark.read.parquet(str(out)).collect():
        found.setdefault(row.behaviour, {})[row.kind, row.step] = row.error
    return found


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


def failure(step: int, entries: ByteMap) -> None:
    assert isinstance(entries, PipelinedSparkMap)
    entries.put({b"key": b"value"})
    name, entries._name = entries._name, "unknown"
    with pytest.raises(PySparkRuntimeError, match="unknown"):
        entries.put({b"%d" % number: b"" for number in range(1000)})
    entries._name = name
    assert entries.get([b"key", b"1"]) == [b"value", None]


def chosen(step: int, entries: ByteMap) -> None:
    assert isinstance(entries, SparkMap)
    assert type(spark_map(entries._state)) is PipelinedSparkMap


Behaviour = tuple[Callable[[int, ByteMap], None], Iterable[str], int]
BEHAVIOURS: dict[str, Behaviour] = {
    "maps_keep_their_entries_over_restarts": (contract, MAPS, 3),
    "maps_take_large_values": (large_values, MAPS, 2),
    "a_failed_request_leaves_the_client_usable": (failure, ["pipelined"], 1),
    "this_version_of_pyspark_allows_pipelining": (chosen, ["per call"], 1),
}
"""What to call in each step, for which maps, and the number of the steps."""


@pytest.mark.long("half a minute; streams on Spark keep their state in these maps")
@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_in_queries_that_stop_and_start_again(
    behaviour: str, errors: dict[str, dict[tuple[str, int], str]]
) -> None:
    _, kinds, steps = BEHAVIOURS[behaviour]
    assert errors[behaviour] == {(kind, step): "" for kind in kinds for step in range(steps)}


def test_without_the_client_s_private_parts_the_public_ones_do() -> None:
    assert type(spark_map(object())) is SparkMap


def test_a_map_in_memory_does_as_they_do() -> None:
    entries = MemoryMap()
    for step in range(3):
        contract(step, entries)

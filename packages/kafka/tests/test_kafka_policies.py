"""Watermarks of the timestamp policies of Beam's Kafka source, for each partition."""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.kafka import ReadFromKafka
from apache_beam.options.pipeline_options import PipelineOptions
from partitioned import COLUMNS, HOUR, SECOND, MicroBatch, PartitionedRun, Sums

from sparkbeam import SparkRunner
from sparkbeam.io import ReadFromSpark
from sparkbeam.streaming.source_watermarks import (
    SourceClock,
    SourceObservation,
    SourceProgress,
)
from sparkbeam_kafka import hooks as kafka_hooks
from sparkbeam_kafka.client import KafkaError, Partition

COMMITTED = {"isolation.level": "read_committed"}
CREATE, APPEND = ReadFromKafka.create_time_policy, ReadFromKafka.log_append_time


def read(policy: str, **config: str) -> ReadFromKafka:
    return ReadFromKafka(
        {"bootstrap.servers": "nowhere:1", **config},
        ["t"],
        value_deserializer="org.apache.kafka.common.serialization.LongDeserializer",
        timestamp_policy=policy,
    )


def watermarks(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    policy: str,
    micro_batches: Sequence[MicroBatch],
    partitions: int = 1,
    **config: str,
) -> list[int | None]:
    """Those after each micro-batch; the first one has none yet."""
    run = PartitionedRun(folder, monkeypatch, partitions=lambda number: partitions)
    last = len(micro_batches) + 1
    run.run(micro_batches, last, lambda numbers: numbers, read=read(policy, **config))
    first, *others = run.watermarks()
    return [None if mark == first else mark for mark in others]


@pytest.mark.parametrize(
    ("policy", "batches", "marks"),
    [
        (CREATE, [{0: [-90]}, {0: [-50, -70]}, {0: [-60]}], [-90, -50, -50]),
        (CREATE, [{0: [-90], 1: [-50]}, {0: [-80], 1: [-10]}, {0: [-5], 1: [-9]}], [-90, -80, -9]),
        (CREATE, [{0: [HOUR]}, {0: [5]}, {0: [6]}], [1, 2, 3]),
        (CREATE, [{0: [-90]}, {}, {}, {}, {}, {}], [-90, -90, -90, 3, 4, 5]),
        (APPEND, [{0: [-90]}, {}, {}, {0: [3]}], [-90, -1, 0, 3]),
    ],
    ids=["latest", "least of partitions", "ahead of the clock", "idle", "idle by append time"],
)
def test_a_policy_makes_watermarks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, batches: Any, marks: list[int]
) -> None:
    """An idle partition follows the clock, by append time two seconds behind it."""
    assert watermarks(tmp_path, monkeypatch, policy, batches, len(batches[0])) == marks


@pytest.mark.parametrize("policy", [CREATE, APPEND])
def test_a_partition_without_any_record_follows_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    batches: list[MicroBatch] = [{0: [n]} for n in range(8)]
    found = watermarks(tmp_path, monkeypatch, policy, batches, 2)
    assert found[-1] is not None
    assert found[-1] >= 5


def test_one_partition_idle_and_one_an_hour_behind_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the other two have is kept until the hour is made up for, and nothing is late."""
    windows = Sums(tmp_path)
    run = PartitionedRun(tmp_path, monkeypatch, partitions=lambda number: 4)
    batches = [{0: [n], 1: [n], 3: range(10 * n - HOUR, 10 * n + 10 - HOUR)} for n in range(40)]
    run.run(batches, 41, windows, read=read(CREATE))
    assert [count for _, count in windows.found()] == [10] * 39, (
        "all windows of the partition that is behind but one"
    )
    run.run(batches, 48, windows, read=read(CREATE))
    assert windows.total() == 40 * 10 + 40 * 2


def test_a_new_partition_holds_the_windows_until_it_is_known_to_be_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = PartitionedRun(tmp_path, monkeypatch, partitions=lambda n: 1 if n < 4 else 2)
    batches: list[MicroBatch] = [{0: [n]} for n in range(12)]
    batches[5] = {0: [5], 1: [3]}
    run.run(batches, 12, lambda numbers: numbers, read=read(CREATE))
    marks = run.watermarks()
    assert marks[5:8] == [3, 3, 3]
    assert marks == sorted(marks)
    assert marks[-1] >= 9


class Broker:
    """Client of a broker with open transactions.

    Attributes:
        open: the partitions with one, as long as ``hidden`` is positive, or a KafkaError.
        hidden: the number of times that they are asked for.
    """

    open: tuple[int, ...] | KafkaError = ()
    hidden = 0

    def __init__(self, config: dict[str, str]) -> None:
        assert config["isolation.level"] == "read_uncommitted"

    def ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        Broker.hidden -= 1
        if isinstance(self.open, KafkaError) and self.hidden >= 0:
            raise self.open
        open = self.open if self.hidden >= 0 and isinstance(self.open, tuple) else ()
        return {(topic, at): int(at in open) for topic, at in partitions}


def test_ends_of_partitions_are_those_for_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, str]] = []

    def client(settings: dict[str, str]) -> SimpleNamespace:
        asked.append(settings)
        return SimpleNamespace(ends=lambda partitions: dict.fromkeys(partitions, 5))

    monkeypatch.setattr(kafka_hooks, "Client", client)
    connection = kafka_hooks.KafkaHooks((("kafka.isolation.level", "read_committed"),)).connect()
    found = [connection.ends(offsets) for offsets in ({}, {"t/0": 3}, {"t/0": 5})]
    assert (found, asked) == ([None, {"t/0": 5}, {"t/0": 5}], [COMMITTED])


def by_timestamps() -> ReadFromSpark:
    return ReadFromSpark(
        "kafka",
        {"kafka.Isolation.level": "read_committed", "subscribe": "t"},
        schema=COLUMNS,
        columns=["value"],
        timestamp_column="timestamp",
        idle_timeout=2,
        follow_clock_when_idle=True,
    )


@pytest.mark.part(4)
@pytest.mark.parametrize("open", [(0,), (0, 1), KafkaError("away")])
@pytest.mark.parametrize(
    "source",
    [lambda: read(CREATE, **COMMITTED), lambda: read(APPEND, **COMMITTED), by_timestamps],
)
def test_records_of_a_transaction_that_is_open_for_long_are_not_late(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    open: tuple[int, ...] | KafkaError,
    source: Callable[[], Any],
) -> None:
    monkeypatch.setattr(kafka_hooks, "Client", Broker)
    monkeypatch.setattr(Broker, "open", open)
    monkeypatch.setattr(Broker, "hidden", 29)
    windows = Sums(tmp_path)
    run = PartitionedRun(tmp_path, monkeypatch, partitions=lambda number: 2)
    batches: list[MicroBatch] = [{0: [n], 1: [n]} for n in range(3)]
    batches += [*([{}] * 30), {0: range(3, 33)}]
    run.run(batches, 50, windows, read=source())
    assert [count for _, count in windows.found()] == [13, 10, 10, 3]


def test_a_partition_whose_records_are_all_aborted_is_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_hooks, "Client", Broker)
    monkeypatch.setattr(Broker, "open", (1,))
    monkeypatch.setattr(Broker, "hidden", 4)
    batches: list[MicroBatch] = [{0: [n]} for n in range(12)]
    found = watermarks(tmp_path, monkeypatch, CREATE, batches, 2, **COMMITTED)
    assert found == [*([None] * 6), *range(6, 12)]


@pytest.mark.parametrize(("until", "end"), [(None, 9), (4, 4)])
@pytest.mark.parametrize("lag", [0, None])
def test_an_idle_partition_follows_the_clock_to_the_time_up_to_which_all_has_been_read(
    until: int | None, end: int, lag: int | None
) -> None:
    """A run with ``--trigger=available-now`` reads what was there when it began."""
    policy = SourceClock(0, tells=True, idle=2 * SECOND, follows=True, idle_lag=lag)
    marks = SourceProgress()
    for number in range(1, 10):
        began = None if until is None else until * SECOND
        seen = {"t/0": SECOND} if number == 1 else {}
        look = SourceObservation(number * SECOND, seen, ("t/0", "t/1"), until=began)
        marks = policy.after(marks, look, 20 * SECOND)
    assert marks.watermark == end * SECOND


@pytest.mark.parametrize("login", [{"sasl.mechanism": "GSSAPI"}, {}])
def test_a_read_without_open_transactions_or_event_times_needs_no_client(
    login: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    pipeline = beam.Pipeline(runner=SparkRunner(), options=PipelineOptions(["--streaming"]))
    _ = pipeline | read(ReadFromKafka.processing_time_policy, **COMMITTED, **login)
    _ = pipeline | "Uncommitted" >> read(CREATE, **login)


@pytest.mark.parametrize("what", ["planned", "sink", "committed"])
def test_a_restart_changes_no_watermark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    run = PartitionedRun(tmp_path, monkeypatch, partitions=lambda number: 2)
    batches = [{0: [5 * n - 60], 1: [5 * n - 90]} for n in range(9)]
    for number in (2, 5):
        run.crash(batches, (number, what), lambda numbers: numbers, read=read(CREATE))
    run.run(batches, 9, lambda numbers: numbers, read=read(CREATE))
    assert run.watermarks()[1:] == [5 * n - 90 for n in range(8)]

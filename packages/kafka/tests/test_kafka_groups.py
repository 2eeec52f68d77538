"""Offsets of consumer groups of Kafka: where a read starts, and when they are committed."""

import json
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from apache_beam.io.kafka import ReadFromKafka
from partitioned import MicroBatch, PartitionedRun

from sparkbeam.connectors.source_frames import started
from sparkbeam.errors import ConfigurationError, PipelineFailed
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam_kafka import subscription
from sparkbeam_kafka.client import KafkaError, Partition
from sparkbeam_kafka.hooks import KafkaHooks
from sparkbeam_kafka.subscription import Subscription

SECRET = "geheim"


class FakeClient:
    """A client of a topic with three partitions, of which two have committed offsets."""

    commits: list[Mapping[Partition, int]]
    problem = ""
    offsets: Mapping[Partition, int] = {("t", 0): 5, ("t", 1): 50}

    def __init__(self, config: Mapping[str, str]) -> None:
        assert config["group.id"] == "g"

    def __enter__(self) -> "FakeClient":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""

    def partitions(self, topics: Iterable[str]) -> list[Partition]:
        if self.problem:
            raise KafkaError(self.problem)
        return [(topic, number) for topic in topics for number in range(3)]

    def bounds(self, partition: Partition) -> tuple[int, int]:
        return 2, 20

    def committed(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        return self.offsets

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        if self.problem:
            raise KafkaError(self.problem)
        self.commits.append(offsets)


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> type[FakeClient]:
    monkeypatch.setattr(subscription, "Client", FakeClient)
    monkeypatch.setattr(FakeClient, "commits", [], raising=False)
    return FakeClient


def spec(reset: str = "latest") -> ReadSpec:
    config = (("group.id", "g"), ("sasl.jaas.config", SECRET))
    return ReadSpec("kafka", config, hooks=KafkaHooks(config, Subscription(("t",), config, reset)))


@pytest.mark.parametrize(("reset", "start"), [("latest", 20), ("earliest", 2)])
def test_a_read_starts_at_committed_offsets_that_still_exist(
    kafka: type[FakeClient], reset: str, start: int
) -> None:
    options = dict(started(spec(reset), "Read").options)
    assert json.loads(options["startingOffsets"]) == {"t": {"0": 5, "1": start, "2": start}}


def test_without_an_offset_and_a_reset_a_read_does_not_start(kafka: type[FakeClient]) -> None:
    with pytest.raises(
        ConfigurationError, match=r"'Read': auto.offset.reset=none, but partition 1"
    ):
        started(spec("none"), "Read")


def test_a_broker_that_does_not_answer_is_named_with_the_step(
    kafka: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "problem", f"no login with {SECRET}.")
    with pytest.raises(PipelineFailed, match="Step 'Read' failed: Kafka did not return") as raised:
        started(spec(), "Read")
    assert SECRET not in str(raised.value)


def read(**given: Any) -> ReadFromKafka:
    config = {"bootstrap.servers": "nowhere:1", "group.id": "g"}
    return ReadFromKafka(
        config,
        ["t"],
        value_deserializer="org.apache.kafka.common.serialization.LongDeserializer",
        **given,
    )


def run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *crashes: tuple[int, str], **given: Any
) -> None:
    """Three micro-batches, the first ones up to crashes."""
    batches: list[MicroBatch] = [{0: [n]} for n in range(3)]
    query = PartitionedRun(folder, monkeypatch, partitions=lambda number: number + 1)
    for point in crashes:
        query.crash(batches, point, lambda numbers: numbers, read=read(**given))
    query.run(batches, 3, lambda numbers: numbers, read=read(**given))


def of(partitions: int) -> Mapping[Partition, int]:
    return {("t", number): 0 for number in range(partitions)}


def test_offsets_are_committed_behind_the_commit_of_their_micro_batch(
    kafka: type[FakeClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, monkeypatch, commit_offset_in_finalize=True)
    assert kafka.commits
    assert kafka.commits[-1] == of(2), "the third is not known to be committed"


def test_offsets_of_a_micro_batch_that_failed_are_not_committed(
    kafka: type[FakeClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = PartitionedRun(tmp_path, monkeypatch, partitions=lambda number: number + 1)
    batches: list[MicroBatch] = [{0: [n]} for n in range(3)]
    again = read(commit_offset_in_finalize=True)
    query.crash(batches, (1, "sink"), lambda numbers: numbers, read=again)
    assert [*kafka.commits] in ([], [of(1)])


def test_nothing_is_committed_that_the_consumer_would_not_commit(
    kafka: type[FakeClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, monkeypatch, (1, "committed"))
    assert kafka.commits == []


def test_a_failed_commit_is_told_once_and_stops_nothing(
    kafka: type[FakeClient],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(kafka, "problem", "the broker is away.")
    monkeypatch.setattr(KafkaHooks, "starting_options", lambda *_: {})
    with caplog.at_level(logging.WARNING):
        run(tmp_path, monkeypatch, commit_offset_in_finalize=True)
    told = "offsets of group 'g' are not committed: the broker is away."
    assert caplog.text.count(told) == 1

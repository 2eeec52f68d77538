"""Topics of Kafka that are not what they were when the checkpoint was written."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from apache_beam.io.kafka import ReadFromKafka
from partitioned import MicroBatch, PartitionedRun

from sparkbeam.errors import ConfigurationError, PipelineFailed
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.streaming.checkpoint_files import LocalFiles, files
from sparkbeam.streaming.spark_sources import check_checkpoint
from sparkbeam_kafka import hooks as kafka_hooks
from sparkbeam_kafka.client import KafkaError, Partition

SECRET = "geheim"


class Topic:
    """A client of a topic with two partitions."""

    id = "first"
    bounds_of = (0, 20)
    problem: Exception | None = None

    def __init__(self, config: dict[str, str]) -> None:
        assert config["sasl.jaas.config"] == SECRET

    def __enter__(self) -> "Topic":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to do."""

    def topic_ids(self, topics: set[str]) -> dict[str, str]:
        if self.problem is not None:
            raise self.problem
        return dict.fromkeys(topics, self.id)

    def bounds(self, partition: Partition) -> tuple[int, int]:
        return self.bounds_of


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> type[Topic]:
    monkeypatch.setattr(kafka_hooks, "Client", Topic)
    return Topic


def run_to(folder: Path, offset: int) -> None:
    """Write what Spark and the sink write in a micro-batch that ends at an offset."""
    check(folder)
    offsets = ["v1", "{}", '{"number": 1}', json.dumps({"t": {"0": offset, "1": 2}})]
    (folder / "offsets").mkdir()
    (folder / "offsets" / "0").write_text("\n".join(offsets))
    files(str(folder)).write("feedback/1.json", b"{}")


def check(folder: Path, **options: Any) -> None:
    given = {"subscribe": "t", "kafka.sasl.jaas.config": SECRET, **options}
    spec = ReadSpec("kafka", hooks=kafka_hooks.KafkaHooks.from_options(given))
    check_checkpoint(spec, "Read", 0, LocalFiles(str(folder)))


@pytest.mark.parametrize(
    ("id", "bounds", "told"),
    [
        ("second", (0, 3), "topic 't' was deleted and recreated .* offset 10 of partition 0"),
        ("second", (0, 20), "topic 't' was deleted and recreated"),
        ("first", (0, 3), "partition 0 of topic 't' ends at offset 3, before offset 10"),
        ("first", (12, 20), "partition 0 of topic 't' from offset 10, .* to 11 have expired. .*"),
    ],
)
def test_records_that_would_be_skipped_are_an_error(
    tmp_path: Path,
    topic: type[Topic],
    monkeypatch: pytest.MonkeyPatch,
    id: str,
    bounds: tuple[int, int],
    told: str,
) -> None:
    run_to(tmp_path, 10)
    check(tmp_path)
    monkeypatch.setattr(topic, "id", id)
    monkeypatch.setattr(topic, "bounds_of", bounds)
    for _ in range(2):
        with pytest.raises(PipelineFailed, match=f"Step 'Read' failed: .*{told}") as failed:
            check(tmp_path)
        assert "--checkpoint_location" in str(failed.value)


def test_records_that_have_expired_are_passed_over_with_a_warning_if_the_consumer_resets(
    tmp_path: Path,
    topic: type[Topic],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run_to(tmp_path, 10)
    monkeypatch.setattr(topic, "bounds_of", (12, 20))
    with caplog.at_level(logging.WARNING):
        check(tmp_path, failOnDataLoss="false")
    assert "Step 'Read': the records of partition 0 of topic 't' from offset 10" in caplog.text
    assert "Reading continues at offset 12" in caplog.text


@pytest.mark.parametrize(
    "problem", [KafkaError(f"with {SECRET}"), ConfigurationError("no package")]
)
def test_a_checkpoint_is_continued_if_kafka_cannot_be_asked(
    tmp_path: Path, topic: type[Topic], monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    run_to(tmp_path, 10)
    monkeypatch.setattr(topic, "problem", problem)
    monkeypatch.setattr(topic, "bounds_of", (0, 3))
    check(tmp_path)


def test_offsets_that_go_back_in_a_run_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = PartitionedRun(
        *(tmp_path, monkeypatch),
        partitions=lambda number: 2,
        end=lambda number: number if number < 3 else 1,
    )
    batches: list[MicroBatch] = [{0: [n]} for n in range(9)]
    for _ in range(2):
        with pytest.raises(AssertionError) as failed:
            run.run(batches, 9, lambda numbers: numbers, read=read())
        assert "partition 0 of topic 't' ends at offset 1, before offset 2" in str(failed.value)


def read() -> ReadFromKafka:
    return ReadFromKafka(
        {"bootstrap.servers": "nowhere:1"},
        ["t"],
        value_deserializer="org.apache.kafka.common.serialization.LongDeserializer",
    )

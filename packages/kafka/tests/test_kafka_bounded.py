"""Bounded reads of Kafka: a number of records, whatever their offsets."""

import time
from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from apache_beam.io.kafka import ReadFromKafka

from sparkbeam_kafka import subscription
from sparkbeam_kafka.bounded import _Choose, _Read
from sparkbeam_kafka.client import Partition
from sparkbeam_kafka.records import RecordForm
from sparkbeam_kafka.subscription import Subscription
from sparkbeam_kafka.values import BYTES

PLAIN = range(100)
MARKED = [*range(99), 100]
ABORTED = [number for number in range(400) if number // 50 % 2]
COMPACTED = [0, 1, 7, 50, 51, 90]


class Topic:
    """A client of a topic, whose partitions have records at some offsets.

    Attributes:
        offsets: of the records of each partition; offsets between them have none.
        end: of each partition.
    """

    offsets: Mapping[int, Iterable[int]]
    end = 402

    def __init__(self, config: Mapping[str, str]) -> None:
        """Need no configuration."""

    def __enter__(self) -> "Topic":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to do."""

    def partitions(self, topics: Iterable[str]) -> list[Partition]:
        return [("t", number) for number in self.offsets]

    def bounds(self, partition: Partition) -> tuple[int, int]:
        return 0, self.end

    def at_time(self, partitions: Iterable[Partition], millis: int) -> dict[Partition, int]:
        return dict.fromkeys(partitions, 52)

    def records(self, partition: Partition, start: int, end: int) -> Iterator[Any]:
        for offset in self.offsets[partition[1]]:
            if start <= offset < end:
                yield SimpleNamespace(
                    offset=lambda at=offset: at, key=lambda: None, value=lambda: b""
                )


def read(
    most: int | None = None, seconds: int | None = None, stop: int | None = None
) -> list[tuple[int, int]]:
    """The partitions and offsets of the records that are read."""
    topics = Subscription(("t",), (), "earliest")
    ranges = [*_Choose(topics, most, seconds, stop).process(None)]
    records = _Read(topics, RecordForm(BYTES, BYTES, False), ReadFromKafka.processing_time_policy)
    client = Topic({})
    found = []
    for each in ranges:
        partition, start, end = each
        found += [(partition[1], one.offset()) for one in client.records(partition, start, end)]
        assert len([*records.process(each)]) == len([*client.records(partition, start, end)])
    return found


@pytest.fixture(autouse=True)
def topic(monkeypatch: pytest.MonkeyPatch) -> type[Topic]:
    monkeypatch.setattr(subscription, "Client", Topic)
    return Topic


@pytest.mark.parametrize("offsets", [PLAIN, MARKED, ABORTED, COMPACTED])
@pytest.mark.parametrize("others", [[], PLAIN, ABORTED])
def test_as_many_records_are_read_as_are_wanted(
    topic: type[Topic],
    monkeypatch: pytest.MonkeyPatch,
    offsets: Iterable[int],
    others: Iterable[int],
) -> None:
    monkeypatch.setattr(topic, "offsets", {0: offsets, 1: others}, raising=False)
    every = [(0, at) for at in offsets] + [(1, at) for at in others]
    for most in (1, 2, 50, 99, 100, 120, len(every)):
        if most <= len(every):
            assert read(most) == every[:most]
    assert read(seconds=0) == every
    assert read(len(every) + 1, seconds=0) == every
    assert read(stop=5) == [(partition, at) for partition, at in every if at < 52]
    assert read(2, stop=5) == read(stop=5)[:2]


def test_a_read_waits_for_records_that_come_later(
    topic: type[Topic], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic, "offsets", {0: ABORTED}, raising=False)
    monkeypatch.setattr(topic, "end", 40)

    def sleep(seconds: float) -> None:
        topic.end += 40

    monkeypatch.setattr(time, "sleep", sleep)
    assert read(60) == [(0, at) for at in ABORTED[:60]]

"""What was read of a partition last is read again from memory, as by a second action."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hubs import numbered, options, range_of, rows, stream
from waiting import until

from pyspark_eventhubs.events import Events
from pyspark_eventhubs.pool import Pool
from pyspark_eventhubs.recent_ranges import LastRanges
from pyspark_eventhubs.slow_partitions import RangeRead
from pyspark_eventhubs.testing import EventHubsServer


@pytest.fixture
def pools(tmp_path: Path) -> Iterator[tuple[Pool, Pool]]:
    found = Pool(tmp_path / "n"), Pool(tmp_path / "n")
    yield found
    for pool in found:
        pool.close()


def test_a_range_that_is_read_again_is_delivered_once(server: EventHubsServer) -> None:
    server.send("clicks", numbered(1000), partition=0)
    source, pool = options(server), Pool()
    for _ in range(3):
        assert range_of(source, 0, 1000, pool, epoch=5) == numbered(1000)
    assert range_of(source, 300, 700, pool, epoch=5) == numbered(400, 300)
    assert (server.counts().delivered, pool.made) == (1000, 1)
    pool.close()


def test_the_next_range_goes_on_with_the_receiver(server: EventHubsServer) -> None:
    server.send("clicks", numbered(100), partition=0)
    source, pool = options(server), Pool()
    for at in range(0, 100, 10):
        for _ in range(2):
            assert range_of(source, at, at + 10, pool, epoch=5) == numbered(10, at)
    assert (server.counts().delivered, pool.made) == (100, 1)
    assert range_of(source, 0, 10, pool, epoch=5) == numbered(10)
    assert server.counts().delivered > 100, "the last range alone is kept"
    pool.close()


@pytest.mark.parametrize("count", [50, 6000])
def test_another_process_of_the_machine_is_asked(
    server: EventHubsServer, pools: tuple[Pool, Pool], count: int
) -> None:
    server.send("clicks", numbered(count), partition=0)
    source = options(server)
    for pool in (*pools, *pools):
        assert range_of(source, 0, count, pool, epoch=5) == numbered(count)
    assert server.counts().delivered == count
    server.send("clicks", numbered(10, count), partition=0)
    assert range_of(source, count, count + 10, pools[1], epoch=5) == numbered(10, count)
    assert server.counts().receivers == 1, "the receiver is where it was"


def test_a_range_that_grows_is_read_from_memory_as_far_as_it_is_there(
    server: EventHubsServer,
) -> None:
    server.send("clicks", numbered(60), partition=0)
    source, pool = options(server), Pool()
    range_of(source, 0, 50, pool)
    assert range_of(source, 0, 60, pool) == numbered(60), "a batch that is read again"
    assert (server.counts().delivered, pool.made) == (60, 1)
    pool.close()


def test_a_range_larger_than_memory_is_whole(
    server: EventHubsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.send("clicks", [b"%d" % n + b"." * 1000 for n in range(100)], partition=0)
    source, pool = options(server, prefetch="10"), Pool()
    pool.ranges = LastRanges(60_000)
    first = range_of(source, 0, 100, pool)
    assert range_of(source, 0, 100, pool) == first
    assert 100 < server.counts().delivered < 200
    assert sum(kept.size for kept in pool.ranges._ranges.values()) <= 60_000
    pool.close()


def test_events_that_have_expired_are_read_again_alike(server: EventHubsServer) -> None:
    server.send("clicks", numbered(100), partition=0)
    server.expire("clicks", 0, 40)
    source, pool = options(server, failOnDataLoss="false"), Pool()
    for _ in range(2):
        assert range_of(source, 10, 100, pool) == numbered(60, 40)
    pool.close()


def test_what_is_read_from_memory_makes_no_partition_look_fast(server: EventHubsServer) -> None:
    server.send("clicks", numbered(100), partition=0)
    text = server.connection_string("clicks")
    reader = stream(
        {"connectionString": text, "slowPartitionThreshold": "0"},
        startingPosition="start",
    )
    start = reader.initialOffset()
    end = reader.latestOffset(start)
    parts = reader.partitions(start, end)
    for _ in range(2):
        assert len(rows(reader, parts)) == 100
    taken = reader._reports
    assert taken is not None
    reports: list[RangeRead] = []

    def all_there() -> bool:
        reports.extend(taken.received())
        return len(reports) == 2

    until(all_there)
    assert [read.events for read in reports] == [100, 0]


def part(first: int, count: int) -> Events:
    many = [""] * count
    return Events(
        list(range(first, first + count)),
        list(many),
        [0] * count,
        [None] * count,
        [None] * count,
        [[("name", None)]] * count,
        [[]] * count,
        [b"." * 1000] * count,
    )


def test_of_many_partitions_those_read_last_are_kept() -> None:
    ranges = LastRanges(10_000)
    for partition in range(5):
        ranges.add(partition, 0, 0, part(0, 3))
    found = [ranges.get(partition, 0, 3) is not None for partition in range(5)]
    assert found == [False, False, False, True, True]
    ranges.forget_idle(1e18)
    assert ranges.get(4, 0, 3) is None


def test_nothing_is_kept_across_a_gap_or_beyond_an_end() -> None:
    ranges = LastRanges()
    ranges.add("p", 0, 0, part(0, 3))
    ranges.add("p", 0, 7, part(7, 3))
    assert ranges.get("p", 7, 10) is None
    assert ranges.get("p", 2, 2) is None
    assert ranges.get("p", -1, 3) is None
    ranges.add("p", 0, 3, part(5, 2))
    found = ranges.get("p", 3, 7)
    assert found is not None
    assert (found.numbers, found.again) == ([5, 6], True)
    assert ranges.get("p", 3, 5) is None

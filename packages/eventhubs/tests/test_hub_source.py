"""The data source plans micro-batches and reads them, without Spark around it."""

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hubs import EARLY, at, numbered, rows, stream

from pyspark_eventhubs import EventHubsSource, EventPosition, range_reader
from pyspark_eventhubs.admission import admitted
from pyspark_eventhubs.data_source import EventHubsReader, EventHubsStreamReader, HubRange
from pyspark_eventhubs.events import EventHubsError
from pyspark_eventhubs.pool import POOL
from pyspark_eventhubs.source_options import SourceOptions
from pyspark_eventhubs.stream_readers import ReadAllAvailable, ReadMaxRows
from pyspark_eventhubs.testing import EventHubsServer
from sparkbeam.errors import CheckpointFailed
from sparkbeam.streaming.checkpoint_files import LocalFiles, next_epoch, stored_places
from sparkbeam_eventhubs.source import FREEZES, PipelineHubSource

Base = dict[str, str]
"""Options of a source that tells its server and hub."""


def batch(base: Base, **given: str) -> list[dict[str, Any]]:
    source = EventHubsSource(base | given)
    reader = source.reader(source.schema())
    assert isinstance(reader, EventHubsReader)
    return rows(reader, reader.partitions())


def test_a_batch_reads_what_there_is(server: EventHubsServer, base: Base) -> None:
    server.send(
        "clicks", [b"a"], partition=1, partition_key="k", properties={"n": 1}, enqueued=EARLY
    )
    server.send("clicks", [b"b"], partition=0)
    first, second = batch(base)
    assert first["body"] == b"b"
    assert second == {
        "body": b"a",
        "partition": 1,
        "offset": "0",
        "sequence_number": 0,
        "enqueued_time": EARLY,
        "publisher": None,
        "partition_key": "k",
        "properties": [("n", "1")],
        "system_properties": [],
        "event_hub": "clicks",
    }


def test_a_batch_reads_a_range(server: EventHubsServer, base: Base) -> None:
    """Of ten events in partition 0, with offsets 0 to 900, and none in partition 1."""
    send_ten(server)
    positions = (
        ("", "", range(10)),
        ("start", "end", range(10)),
        ("end", "end", range(0)),
        ("start", "start", range(0)),
        ('{"offset": -1}', '{"offset": "@latest", "inclusive": false}', range(10)),
        ('{"offset": "@latest"}', "end", range(0)),
        ("start", '{"offset": "-1"}', range(0)),
        ('{"sequence_number": 3}', '{"sequence_number": 7}', range(3, 8)),
        ('{"sequence_number": 3}', '{"sequence_number": 7, "inclusive": true}', range(3, 8)),
        ('{"sequence_number": 3}', '{"sequence_number": 7, "inclusive": false}', range(3, 7)),
        ('{"sequence_number": 3, "inclusive": false}', '{"sequence_number": 4}', range(4, 5)),
        ('{"sequence_number": 0}', '{"sequence_number": 0}', range(1)),
        ('{"sequence_number": 0}', '{"sequence_number": 0, "inclusive": false}', range(0)),
        ("start", '{"sequence_number": 9}', range(10)),
        ("start", '{"sequence_number": 99}', range(10)),
        ('{"sequence_number": 99}', "end", range(0)),
        ('{"offset": "300"}', '{"offset": "700"}', range(3, 8)),
        ('{"offset": "300"}', '{"offset": "700", "inclusive": false}', range(3, 7)),
        ('{"offset": 300, "inclusive": false}', '{"offset": "701"}', range(4, 8)),
        ('{"offset": "301"}', '{"offset": "699", "inclusive": false}', range(4, 7)),
        ('{"offset": "0"}', '{"offset": "900"}', range(10)),
        ('{"offset": "900", "inclusive": false}', "end", range(0)),
        ('{"offset": "200"}', '{"enqueued": "2030-01-01T00:00:05Z"}', range(2, 5)),
        ('{"enqueued": "2030-01-01T00:00:08"}', "end", range(8, 10)),
        ('{"enqueued": "2030-01-01T00:00:08.000001"}', "end", range(9, 10)),
        ('{"enqueued": 1893456007500}', '{"enqueued": 1893456009000}', range(8, 9)),
        ('{"enqueued": "2031-01-01T00:00:00Z"}', "end", range(0)),
        ("start", '{"enqueued": "2031-01-01T00:00:00Z"}', range(10)),
    )
    for start, end, found in positions:
        given = {"startingPosition": start, "endingPosition": end}
        got = batch(base, **{name: text for name, text in given.items() if text})
        assert [row["body"] for row in got] == numbered(len(found), found.start), given
    POOL.close()


def test_single_partitions_have_their_own_range(server: EventHubsServer, base: Base) -> None:
    for partition in (0, 1):
        send_ten(server, partition)
    given = {
        "startingPosition": '{"sequence_number": 2}',
        "startingPositions": '{"1": {"offset": "500", "inclusive": false}}',
        "endingPosition": '{"sequence_number": 8}',
        "endingPositions": '{"0": {"sequence_number": 4, "inclusive": false}}',
    }
    got = [(row["partition"], row["sequence_number"]) for row in batch(base, **given)]
    assert got == [(0, 2), (0, 3), (1, 6), (1, 7), (1, 8)]


def send_ten(server: EventHubsServer, partition: int = 0) -> None:
    for number in range(10):
        time = EARLY + timedelta(seconds=number)
        server.send("clicks", numbered(1, number), partition=partition, enqueued=time)


@pytest.mark.parametrize(
    ("position", "start", "next_ones"),
    [
        ("start", {"0": 0, "1": 0}, range(12)),
        ("end", {"0": 10, "1": 0}, range(10, 12)),
        ('{"offset": "@latest"}', {"0": 10, "1": 0}, range(10, 12)),
        ('{"sequence_number": 8}', {"0": 8, "1": 8}, range(8, 12)),
        ('{"sequence_number": 8, "inclusive": false}', {"0": 9, "1": 9}, range(9, 12)),
        ('{"sequence_number": 11}', {"0": 11, "1": 11}, range(11, 12)),
        ('{"offset": "800", "inclusive": false}', {"0": 9, "1": 0}, range(9, 12)),
        ('{"enqueued": "2030-01-01T00:00:08"}', {"0": 8, "1": 0}, range(8, 12)),
    ],
)
def test_a_stream_begins_at_its_position(
    server: EventHubsServer,
    base: Base,
    position: str,
    start: dict[str, int],
    next_ones: range,
) -> None:
    send_ten(server)
    reader = stream(base, startingPosition=position)
    begin = reader.initialOffset()
    assert at(begin) == start
    server.send("clicks", numbered(2, 10), partition=0)
    end = reader.latestOffset(begin, ReadAllAvailable())
    got = rows(reader, reader.partitions(begin, end))
    assert [row["body"] for row in got] == numbered(len(next_ones), next_ones.start)


def test_a_run_has_a_higher_epoch_than_those_before(server: EventHubsServer, base: Base) -> None:
    server.send("clicks", numbered(1), partition=0)
    epochs = []
    for given in ({}, {}, {"exclusive": "false"}):
        reader = stream(base, startingPosition="start", **given)
        start = reader.initialOffset()
        (partition,) = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
        assert isinstance(partition, HubRange)
        epochs.append(partition.events.epoch)
    first, second, none = epochs
    assert first is not None
    assert second is not None
    assert first < second
    assert none is None


def test_partitions_with_nothing_left_are_told(server: EventHubsServer, base: Base) -> None:
    noted: list[dict[str, int]] = []
    given = {**base, "startingPosition": "start", "discoverPartitions": "0"}
    source = EventHubsSource(given)
    reader = EventHubsStreamReader(SourceOptions.parse(given), source.schema(), noted.append)
    server.send("clicks", numbered(6), partition=0)
    offset: Any = reader.initialOffset()
    for _ in range(4):
        offset = reader.latestOffset(offset, ReadMaxRows(3))
    assert at(offset) == {"0": 6, "1": 0}
    assert noted == [{"1": 0}, {"0": 6, "1": 0}], "each once"
    server.grow("clicks", 3)
    server.send("clicks", numbered(3), partition=2)
    server.send("clicks", numbered(3), partition=1)
    server.expire("clicks", 1, 3)
    for _ in range(3):
        offset = reader.latestOffset(offset, ReadMaxRows(3))
    assert at(offset) == {"0": 6, "1": 0, "2": 3}
    assert noted[2:] == [{"0": 6, "1": 0, "2": 3}], "the new one once it has been read"
    reader.prepareForTriggerAvailableNow()
    server.send("clicks", numbered(3), partition=2)
    assert reader.latestOffset(offset, ReadAllAvailable()) == offset
    assert noted[3:] == [{"0": 6, "1": 0}], "it is at the end of the run, and not at its own"


def test_a_run_of_what_is_there_leaves_the_consumer_group_to_others(
    server: EventHubsServer, base: Base
) -> None:
    server.send("clicks", numbered(6), partition=0)
    reader = stream(base, startingPosition="start")
    start: Any = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert len(rows(reader, reader.partitions(start, end))) == 6
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert len(batch(base)) == 6
    assert server.counts().receivers == 2, "the batch was not refused"


def test_a_stream_finds_its_start_where_the_one_before_has_not_ended(
    server: EventHubsServer, base: Base
) -> None:
    server.send("clicks", numbered(6), partition=0, enqueued=EARLY)
    before = stream(base, startingPosition="start")
    start: Any = before.initialOffset()
    rows(before, before.partitions(start, before.latestOffset(start, ReadAllAvailable())))
    found = stream(base, startingPosition='{"enqueued": "2030-01-01T00:00:00Z"}')
    assert at(found.initialOffset()) == {"0": 0, "1": 0}


def planned(reader: EventHubsStreamReader, start: int, end: int) -> Any:
    (partition,) = reader.partitions({"clicks": {"0": start}}, {"clicks": {"0": end}})
    return partition


def test_a_driver_that_was_thought_dead_is_fenced_off_though_its_clock_is_ahead(
    server: EventHubsServer,
    base: Base,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(range_reader, "sleep", lambda seconds: None)
    server.send("clicks", numbered(30), partition=0)
    checkpoint = LocalFiles(str(tmp_path))
    old = stream(base, epoch=str(next_epoch(checkpoint)))
    assert len(rows(old, [planned(old, 0, 10)])) == 10
    with monkeypatch.context() as earlier:
        earlier.setattr(time, "time_ns", lambda: 10**15)
        new = stream(base, epoch=str(next_epoch(checkpoint)))
    found = rows(new, [planned(new, 10, 20)])
    with pytest.raises(EventHubsError, match="an earlier run of a restarted query"):
        rows(old, [planned(old, 10, 20)])
    found += rows(new, [planned(new, 20, 30)])
    assert [row["body"] for row in found] == numbered(20, 10)
    assert server.counts().stolen == 1, "the new run has lost none"


def test_the_epoch_of_a_checkpoint_is_a_number(tmp_path: Path) -> None:
    checkpoint = LocalFiles(str(tmp_path))
    assert next_epoch(checkpoint) < next_epoch(checkpoint) < 10**15
    checkpoint.write("epoch", b"soon")
    with pytest.raises(CheckpointFailed, match="epoch is damaged"):
        next_epoch(checkpoint)


def test_tasks_of_a_checkpoint_stay_as_they_are_on_a_cluster_of_another_size(
    tmp_path: Path,
) -> None:
    """A sink tells a repeat by the number of its task."""
    checkpoint = LocalFiles(str(tmp_path))
    assert [stored_places(checkpoint, now) for now in (2, 8, 1)] == [2, 2, 2]
    checkpoint.write("places", b"many")
    with pytest.raises(CheckpointFailed, match="places is damaged"):
        stored_places(checkpoint, 2)


def test_a_micro_batch_is_limited_and_shared_by_backlog(
    server: EventHubsServer, base: Base
) -> None:
    server.send("clicks", numbered(3000), partition=0)
    server.send("clicks", numbered(1000), partition=1)
    reader = stream(base, startingPosition="start")
    assert reader.getDefaultReadLimit() == ReadMaxRows(2000)
    start = reader.initialOffset()
    assert at(reader.latestOffset(start, ReadMaxRows(100))) == {"0": 75, "1": 25}
    assert stream(base, maxEventsPerTrigger="7").getDefaultReadLimit() == ReadMaxRows(7)
    unlimited = stream(base, maxEventsPerTrigger="0").getDefaultReadLimit()
    assert isinstance(unlimited, ReadAllAvailable)
    for rate, first, second in (
        ("60", 60, 60),
        (" 60 ", 60, 60),
        ('{"0": 10, "*": 20}', 10, 20),
        ('{"1": 7}', 3000, 7),
        ("{}", 3000, 1000),
    ):
        rated = stream(base, startingPosition="start", maxRatePerPartition=rate)
        found = at(rated.latestOffset(start, ReadAllAvailable()))
        assert found == {"0": first, "1": second}


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "frozen"])
def test_all_that_is_there_is_read_and_nothing_that_comes_later(
    server: EventHubsServer, base: Base, is_told: bool
) -> None:
    """Older versions of Spark do not tell a source that a run is one of what is available now."""
    server.send("clicks", numbered(10), partition=0)
    given = {**base, "startingPosition": "start"}
    frozen = PipelineHubSource({**given, FREEZES: "true"})
    reader: Any = stream(given) if is_told else frozen.streamReader(frozen.schema())
    start = reader.initialOffset()
    if is_told:
        reader.prepareForTriggerAvailableNow()
        server.send("clicks", numbered(10), partition=0)
    middle = reader.latestOffset(start, ReadMaxRows(6))
    server.send("clicks", numbered(10), partition=0)
    end = reader.latestOffset(middle, ReadMaxRows(6))
    assert (at(middle)["0"], at(end)["0"]) == (6, 10)
    assert reader.latestOffset(end, ReadMaxRows(6)) == end


def test_a_spark_that_tells_neither_start_nor_limit_reads_on_within_the_limit(
    server: EventHubsServer, base: Base
) -> None:
    server.send("clicks", numbered(10), partition=0)
    given = {"startingPosition": "start", "maxEventsPerTrigger": "4"}
    reader = stream(base, **given)
    reader.initialOffset()
    ends = [reader.latestOffset() for _ in range(4)]
    assert [at(end)["0"] for end in ends] == [4, 8, 10, 10]
    again = stream(base, **given)
    again.partitions(ends[0], ends[0])  # Spark shows a new run where the last one has ended.
    assert again.latestOffset() == ends[1]


def test_new_partitions_are_read_from_their_start(server: EventHubsServer, base: Base) -> None:
    reader = stream(base, startingPosition="start", discoverPartitions="0")
    start = reader.initialOffset()
    server.grow("clicks", 3)
    server.send("clicks", numbered(4), partition=2)
    found = reader.latestOffset(start, ReadAllAvailable())
    assert at(found)["2"] == 0
    assert reader.partitions(start, found) == []
    end = reader.latestOffset(found, ReadAllAvailable())
    assert [row["body"] for row in rows(reader, reader.partitions(found, end))] == numbered(4)


def test_expired_events_count_in_no_limit(server: EventHubsServer, base: Base) -> None:
    server.send("clicks", numbered(10), partition=0)
    server.expire("clicks", 0, 6)
    reader = stream(base, failOnDataLoss="false")
    start = {"clicks": {"0": 0, "1": 0}}
    end = reader.latestOffset(start, ReadMaxRows(2))
    assert at(end) == {"0": 8, "1": 0}
    assert [row["body"] for row in rows(reader, reader.partitions(start, end))] == numbered(2, 6)


def test_a_hub_that_was_created_again_is_an_error_or_read_from_its_start(
    server: EventHubsServer, base: Base
) -> None:
    server.send("clicks", numbered(3), partition=0)
    start = {"clicks": {"0": 1000, "1": 0}}
    with pytest.raises(EventHubsError, match="Partition 0 of 'clicks' ends at event 2, but"):
        stream(base).latestOffset(start, ReadAllAvailable())
    for available_now in (False, True):
        reader = stream(base, failOnDataLoss="false")
        if available_now:
            reader.prepareForTriggerAvailableNow()
        begin = reader.latestOffset(start, ReadAllAvailable())
        assert at(begin) == {"0": 0, "1": 0}
        assert reader.partitions(start, begin) == []
        end = reader.latestOffset(begin, ReadAllAvailable())
        assert [row["body"] for row in rows(reader, reader.partitions(begin, end))] == numbered(3)


def test_a_rate_of_a_partition_that_there_is_not_is_told(base: Base) -> None:
    reader = stream(base, maxRatePerPartition='{"1": 7, "2": 5}')
    message = "max_rate_per_partition: the event hub 'clicks' has no partition 2, only 0, 1"
    with pytest.raises(ValueError, match=message):
        reader.latestOffset(reader.initialOffset(), ReadAllAvailable())


def test_a_checkpoint_of_another_hub_is_an_error(base: Base) -> None:
    with pytest.raises(EventHubsError, match="'views', but the query reads 'clicks'"):
        stream(base).latestOffset({"views": {"0": 1}}, ReadAllAvailable())


def test_an_event_time_is_read_from_a_property(server: EventHubsServer, base: Base) -> None:
    for value in (1_700_000_000_000, "2030-01-01T00:00:00+00:00", "yesterday", 10**18):
        server.send("clicks", [b"x"], partition=0, properties={"at": value}, enqueued=EARLY)
    found = [row["event_time"] for row in batch(base, timestampProperty="at")]
    assert found[0].timestamp() == 1_700_000_000
    assert found[1:] == [EARLY, EARLY, EARLY]


def test_partitions_are_handed_to_spark_by_their_places(base: Base) -> None:
    numbers = [str(number) for number in range(6)]
    starts, ends = dict.fromkeys(numbers, 0), dict.fromkeys(numbers, 1)
    for given, order in (
        ({}, "012345"),
        ({"places": "4"}, "123054"),
        ({"places": "4", "placement": "hash"}, "013245"),
    ):
        found: Any = stream(base, **given).partitions({"clicks": starts}, {"clicks": ends})
        assert "".join(part.events.partition for part in found) == order


def test_the_order_of_options_case_does_not_matter(server: EventHubsServer, base: Base) -> None:
    server.send("clicks", numbered(2), partition=0)
    assert len(batch(base, STARTINGPOSITION="start")) == 2


def test_32_partitions_are_planned_over_one_connection(base: Base) -> None:
    with EventHubsServer({"wide": 32}) as server:
        given = {"connectionString": server.connection_string("wide")}
        reader = stream(base | given, startingPosition="start")
        start = reader.initialOffset()
        before = server.counts()
        for _ in range(3):
            reader.latestOffset(start, ReadAllAvailable())
        after = server.counts()
        assert after.connections == before.connections
        assert after.requests - before.requests == 3 * 32
        POOL.close()


def test_a_limit_is_shared_so_that_no_partition_waits_for_ever() -> None:
    assert admitted({"0": 5, "1": 0}, None) == {"0": 5, "1": 0}
    assert admitted({"0": 1000, "1": 1, "2": 0}, 10) == {"0": 9, "1": 1, "2": 0}
    assert admitted({"0": 10, "1": 10, "2": 10}, 2) == {"0": 1, "1": 1, "2": 1}
    assert sum(admitted({str(at): 7 * at + 1 for at in range(9)}, 100).values()) == 100
    assert admitted({"0": 50, "1": 50}, 60, {"0": 10}) == {"0": 10, "1": 50}


def test_positions_are_told_as_they_are_given() -> None:
    for position in (
        EventPosition.start(),
        EventPosition.end(),
        EventPosition.offset("17"),
        EventPosition.sequence_number(3, inclusive=False),
        EventPosition.enqueued(EARLY),
    ):
        assert EventPosition.parse("p", position.text()) == position

"""Ranges of a partition are read whole and in order, whatever happens on the way."""

import threading
import time
from collections.abc import Iterator

import pytest
from hubs import numbered, options, range_of
from waiting import until

from pyspark_eventhubs import pool as pools
from pyspark_eventhubs import range_reader
from pyspark_eventhubs.events import EventHubsError
from pyspark_eventhubs.pool import Pool
from pyspark_eventhubs.range_reader import DataLossError, Range, RangeReader
from pyspark_eventhubs.testing import EventHubsServer


@pytest.fixture
def pool() -> Iterator[Pool]:
    found = Pool()
    yield found
    found.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries again at once."""
    monkeypatch.setattr(range_reader, "sleep", lambda seconds: None)


def test_a_receiver_goes_on_where_it_was(server: EventHubsServer, pool: Pool) -> None:
    server.send("clicks", numbered(30), partition=0)
    source = options(server)
    assert range_of(source, 0, 10, pool, epoch=5) == numbered(10)
    assert range_of(source, 10, 30, pool, epoch=5) == numbered(20, 10)
    assert (pool.made, server.counts().receivers) == (1, 1)
    # Another place, as when another process has read in between.
    assert range_of(source, 5, 8, pool, epoch=5) == numbered(3, 5)
    assert server.counts().receivers == 2


def test_a_connection_that_breaks_loses_and_repeats_nothing(
    server: EventHubsServer, pool: Pool
) -> None:
    server.send("clicks", numbered(500), partition=0)
    server.reset_connection(after_events=123)
    assert range_of(options(server), 0, 500, pool) == numbered(500)
    assert server.counts().receivers == 2


def test_a_receiver_that_was_taken_over_is_opened_again(
    server: EventHubsServer, pool: Pool
) -> None:
    server.send("clicks", numbered(10), partition=0)
    reader = RangeReader(options(server), Range("0", 0, 20, 5), pool)
    found: list[bytes] = []
    for events in reader.events():
        found += events.bodies
        if len(found) == 10:
            server.steal("clicks", 0)
            server.send("clicks", numbered(10, 10), partition=0)
    assert found == numbered(20)


def test_one_that_is_taken_over_again_and_again_is_an_error(
    server: EventHubsServer, pool: Pool, impatient: None
) -> None:
    server.send("clicks", numbered(10), partition=0)
    newer = RangeReader(options(server), Range("0", 0, 10, 9), Pool()).events()
    assert next(newer).numbers
    with pytest.raises(EventHubsError, match="a separate consumer group for each query"):
        range_of(options(server), 0, 10, pool, epoch=3)


def test_expired_events_are_an_error_that_names_them(server: EventHubsServer, pool: Pool) -> None:
    server.send("clicks", numbered(10), partition=0)
    server.expire("clicks", 0, 4)
    with pytest.raises(DataLossError, match=r"Partition 0 .* event 2 is requested.* is 4: 2 have"):
        range_of(options(server), 2, 10, pool)


def test_expired_events_are_a_gap_if_that_is_wanted(server: EventHubsServer, pool: Pool) -> None:
    server.send("clicks", numbered(10), partition=0)
    server.expire("clicks", 0, 4)
    reader = RangeReader(options(server, failOnDataLoss="false"), Range("0", 2, 10), pool)
    assert [body for events in reader.events() for body in events.bodies] == numbered(6, 4)
    assert reader.lost == 2


def test_a_range_that_has_expired_is_told_at_once(server: EventHubsServer, pool: Pool) -> None:
    server.send("clicks", numbered(10), partition=0)
    server.expire("clicks", 0, 10)
    given = {"receiverTimeout": "0.2"}
    with pytest.raises(DataLossError, match="is 5: 5 have expired"):
        range_of(options(server, **given), 0, 5, pool)
    gap = options(server, failOnDataLoss="false", **given)
    assert range_of(gap, 0, 5, pool) == []


def test_a_busy_server_is_asked_again(server: EventHubsServer, pool: Pool, impatient: None) -> None:
    server.send("clicks", numbered(3), partition=0)
    server.be_busy(1)
    assert range_of(options(server), 0, 3, pool) == numbered(3)


def test_where_no_event_comes_it_ends_with_an_error(server: EventHubsServer, pool: Pool) -> None:
    server.send("clicks", numbered(3), partition=0)
    source = options(server, receiverTimeout="0.3", operationTimeout="1")
    with pytest.raises(EventHubsError, match="no event arrived within 1 s"):
        range_of(source, 3, 5, pool)


def test_a_connection_that_is_silent_is_given_up_for_a_new_one(
    server: EventHubsServer, pool: Pool
) -> None:
    server.send("clicks", numbered(10), partition=0)
    source = options(server, receiverTimeout="0.3")
    assert range_of(source, 0, 5, pool) == numbered(5)
    server.freeze()
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.extend(range_of(source, 5, 10, pool)))
    thread.start()
    server.thaw()
    thread.join(60)
    assert found == numbered(5, 5)


def test_who_has_no_epoch_waits_for_a_query_that_has_ended(
    server: EventHubsServer,
    pool: Pool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server.send("clicks", numbered(10), partition=0)
    ended = Pool()
    range_of(options(server), 0, 10, ended, epoch=5)
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 10:
            ended.close()

    monkeypatch.setattr(range_reader, "sleep", wait)
    assert range_of(options(server), 0, 10, pool) == numbered(10)
    assert len(waits) >= 10
    assert caplog.text.count("waits for up to 90 s: a streaming query has exclusive") == 1


def test_who_has_no_epoch_is_told_of_a_query_that_goes_on(
    server: EventHubsServer, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.send("clicks", numbered(10), partition=0)
    other = Pool()
    range_of(options(server), 0, 10, other, epoch=5)
    monkeypatch.setattr(range_reader, "EXCLUDED_SECONDS", 0)
    with pytest.raises(EventHubsError, match=r"consumer_group=.* or set exclusive=False"):
        range_of(options(server), 0, 10, pool)
    other.close()


def test_what_is_not_used_is_ended_receivers_first(
    server: EventHubsServer, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(pools, "_RECEIVER_SECONDS", 0.05)
    monkeypatch.setattr(range_reader, "sleep", lambda seconds: time.sleep(0.01))
    server.send("clicks", numbered(10), partition=0)
    source, other = options(server), Pool()
    assert range_of(source, 0, 10, pool, epoch=5) == numbered(10)
    assert range_of(source, 0, 10, other) == numbered(10), "no epoch is in the way any more"
    other.close()
    until(lambda: server.connections() == 1)
    monkeypatch.setattr(pools, "_CLIENT_SECONDS", 0.05)
    until(lambda: server.connections() == 0)
    assert range_of(source, 0, 10, pool, epoch=5) == numbered(10)

"""The test server of Event Hubs, as the Azure SDK sees it."""

import socket
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hubs import EARLY
from waiting import until

from pyspark_eventhubs.server.event_store import BadSelectorError, Partition
from pyspark_eventhubs.testing import EventHubsServer

azure = pytest.importorskip("azure.eventhub")

pytestmark = pytest.mark.hub_partitions(4)


def consumer(server: EventHubsServer, **options: Any) -> Any:
    return azure.EventHubConsumerClient.from_connection_string(
        server.connection_string("clicks"), "$Default", retry_total=0, **options
    )


def producer(server: EventHubsServer, **options: Any) -> Any:
    options.setdefault("retry_total", 0)
    return azure.EventHubProducerClient.from_connection_string(
        server.connection_string("clicks"), **options
    )


def received(server: EventHubsServer, count: int, **options: Any) -> list[Any]:
    """So many events of partition 0, as the SDK receives them."""
    found: list[Any] = []
    client = consumer(server)

    def take(context: Any, events: list[Any]) -> None:
        found.extend(events)

    thread = threading.Thread(
        target=client.receive_batch,
        args=(take,),
        kwargs={"partition_id": "0", "max_wait_time": 0.05, **options},
    )
    thread.start()
    try:
        until(lambda: len(found) >= count)
    finally:
        client.close()
        thread.join(20)
    return found


def bodies(events: list[Any]) -> list[bytes]:
    return [b"".join(event.body) for event in events]


class TestSdk:
    def test_a_hub_tells_its_partitions(self, server: EventHubsServer) -> None:
        with consumer(server) as client:
            assert client.get_partition_ids() == ["0", "1", "2", "3"]

    def test_a_partition_tells_where_it_begins_and_ends(self, server: EventHubsServer) -> None:
        server.send("clicks", [b"a", b"b", b"c"], partition=1)
        server.expire("clicks", 1, 1)
        with consumer(server) as client:
            found = client.get_partition_properties("1")
            empty = client.get_partition_properties("0")
        assert found["beginning_sequence_number"] == 1
        assert found["last_enqueued_sequence_number"] == 2
        assert not found["is_empty"]
        assert (empty["last_enqueued_sequence_number"], empty["is_empty"]) == (-1, True)

    def test_what_is_sent_is_received(self, server: EventHubsServer) -> None:
        event = azure.EventData(b"\x00body\xff")
        event.properties = {"text": "ä", "number": 7, "flag": True, "none": None, "real": 0.5}
        with producer(server) as client:
            client.send_batch([event], partition_id="0")
        (found,) = received(server, 1, starting_position="-1")
        assert b"".join(found.body) == b"\x00body\xff"
        properties = {
            name.decode(): value.decode() if isinstance(value, bytes) else value
            for name, value in found.properties.items()
        }
        assert properties == event.properties
        assert (found.sequence_number, found.offset) == (0, "0")

    def test_events_of_a_key_go_to_one_partition(self, server: EventHubsServer) -> None:
        with producer(server) as client:
            for number in range(3):
                client.send_batch([azure.EventData(f"{number}")], partition_key="käy")
        (found,) = [stored for at in range(4) if (stored := server.events("clicks", at))]
        assert [event.body for event in found] == [b"0", b"1", b"2"]
        assert {event.partition_key for event in found} == {"käy"}

    def test_events_without_a_key_go_to_all_partitions(self, server: EventHubsServer) -> None:
        with producer(server) as client:
            for _ in range(4):
                client.send_batch([azure.EventData("x")])
        assert [len(server.events("clicks", at)) for at in range(4)] == [1, 1, 1, 1]

    def test_it_is_read_from_a_time(self, server: EventHubsServer) -> None:
        for number in range(10):
            at = EARLY + timedelta(seconds=number)
            server.send("clicks", [b"%d" % number], partition=0, enqueued=at)
        found = received(server, 4, starting_position=EARLY + timedelta(seconds=5))
        assert bodies(found) == [b"6", b"7", b"8", b"9"]
        assert found[0].enqueued_time == EARLY + timedelta(seconds=6)

    def test_large_events_and_many_arrive_in_order(self, server: EventHubsServer) -> None:
        large = bytes(range(256)) * 2000
        with producer(server) as client:
            client.send_batch([azure.EventData(large)], partition_id="0")
        server.send("clicks", (b"%d" % number for number in range(3000)), partition=0)
        found = received(server, 3001, starting_position="-1", prefetch=100)
        assert bodies(found) == [large, *(b"%d" % number for number in range(3000))]

    def test_a_wrong_key_is_refused(self, server: EventHubsServer) -> None:
        wrong = server.connection_string("clicks").replace("c3BhcmtiZWFt", "d3Jvbmc=")
        client = azure.EventHubConsumerClient.from_connection_string(
            wrong, "$Default", retry_total=0
        )
        with client, pytest.raises(azure.exceptions.EventHubError):
            client.get_partition_ids()

    def test_there_is_no_other_hub(self, server: EventHubsServer) -> None:
        other = server.connection_string("other")
        with (
            azure.EventHubProducerClient.from_connection_string(other, retry_total=0) as client,
            pytest.raises(azure.exceptions.EventHubError),
        ):
            client.send_batch([azure.EventData("x")])

    def test_a_sender_is_told_to_come_again(self, server: EventHubsServer) -> None:
        server.be_busy(1)
        with producer(server) as client, pytest.raises(azure.exceptions.EventHubError):
            client.send_batch([azure.EventData("x")], partition_id="0")
        with producer(server) as client:
            client.send_batch([azure.EventData("y")], partition_id="0")
        assert [event.body for event in server.events("clicks", 0)] == [b"y"]


def test_a_receiver_of_a_higher_epoch_takes_over(server: EventHubsServer) -> None:
    server.send("clicks", [b"x"], partition=0)
    errors: list[Any] = []
    first, second = consumer(server), consumer(server)
    got: list[str] = []
    threads = []

    def noted(name: str) -> Callable[[Any, Any], None]:
        return lambda context, event: got.append(name)

    def has(name: str) -> Callable[[], bool]:
        return lambda: name in got

    for name, client, level in (("first", first, 1), ("second", second, 2)):
        thread = threading.Thread(
            target=client.receive,
            args=(noted(name),),
            kwargs={
                "partition_id": "0",
                "starting_position": "-1",
                "owner_level": level,
                "on_error": lambda context, error: errors.append(error),
            },
        )
        thread.start()
        threads.append(thread)
        until(has(name))
    until(lambda: errors)
    first.close()
    second.close()
    for thread in threads:
        thread.join(20)
    assert "higher" in str(errors[0]) or "epoch" in str(errors[0])
    assert server.counts().stolen >= 1


def test_bytes_that_are_no_amqp_end_the_connection(server: EventHubsServer) -> None:
    for nonsense in (b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x01\x00\x00" + b"\xff" * 64):
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
            client.sendall(nonsense)
            while client.recv(1024):
                pass
    until(lambda: server.connections() == 0)


@pytest.mark.parametrize(
    ("selector", "first"),
    [
        (None, 2),
        ("amqp.annotation.x-opt-offset > '-1'", 2),
        ("amqp.annotation.x-opt-offset > '@latest'", 10),
        ("amqp.annotation.x-opt-offset > '300'", 4),
        ("amqp.annotation.x-opt-offset >= '300'", 3),
        ("amqp.annotation.x-opt-sequence-number > '3'", 4),
        ("amqp.annotation.x-opt-sequence-number >= '3'", 3),
        ("amqp.annotation.x-opt-sequence-number >= '1'", 2),  # It has expired.
        ("amqp.annotation.x-opt-sequence-number >= '10'", 10),
        ("amqp.annotation.x-opt-enqueued-time > '3000'", 4),
        ("amqp.annotation.x-opt-enqueued-time >= '2999'", 3),
        ("amqp.annotation.x-opt-enqueued-time >= '99999'", 10),
    ],
)
def test_a_filter_tells_the_first_event(selector: str | None, first: int) -> None:
    partition = Partition()
    for number in range(10):
        partition.append(b"", millis=number * 1000)
    partition.expire(2)
    assert partition.position(selector) == first


@pytest.mark.parametrize("selector", ["1 = 1", "amqp.annotation.x-opt-sequence-number >= '11'"])
def test_a_filter_that_no_partition_has_is_refused(selector: str) -> None:
    partition = Partition()
    for _ in range(10):
        partition.append(b"")
    with pytest.raises(BadSelectorError):
        partition.position(selector)

"""Contract of the client with the data source."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest
from hubs import EARLY, all_of, connected, numbered

from pyspark_eventhubs.amqp_client import AmqpClient
from pyspark_eventhubs.amqp_connection import signature_for
from pyspark_eventhubs.events import (
    BrokenOffError,
    EventHubsError,
    Outgoing,
)
from pyspark_eventhubs.settings import ConnectionSettings, Endpoint
from pyspark_eventhubs.testing import EventHubsServer
from sparkbeam_eventhubs.connection import connection_of


@pytest.fixture(scope="module")
def running() -> Iterator[EventHubsServer]:
    """One server; a hub for each test, so that no test sees another's events."""
    with EventHubsServer({f"hub{number}": 4 for number in range(60)}) as server:
        yield server


@pytest.fixture(scope="module")
def names() -> Iterator[str]:
    return (f"hub{number}" for number in range(60))


@pytest.fixture
def hub(names: Iterator[str]) -> str:
    return next(names)


@pytest.fixture
def client(running: EventHubsServer, hub: str) -> Iterator[AmqpClient]:
    found = connected(running, hub)
    yield found
    found.close()


def test_it_tells_partitions_and_what_they_have(
    client: AmqpClient, running: EventHubsServer, hub: str
) -> None:
    running.send(hub, numbered(5), partition=1, enqueued=EARLY)
    running.expire(hub, 1, 2)
    assert client.partitions() == ["0", "1", "2", "3"]
    found = client.bounds(["0", "1"])
    assert (found["0"].first, found["0"].end) == (0, 0)
    assert (found["1"].first, found["1"].end) == (2, 5)
    assert found["1"].newest == EARLY.timestamp() * 1000


def test_a_range_is_read_in_order_and_nothing_beyond_is_asked_for(
    client: AmqpClient, running: EventHubsServer, hub: str
) -> None:
    running.send(hub, numbered(1000), partition=0)
    before = running.counts().delivered
    receiver = client.receiver("$Default", "0", 100, None, 64)
    found = all_of(receiver, 700)
    assert found.bodies == numbered(600, 100)
    assert found.numbers == list(range(100, 700))
    assert running.counts().delivered - before == 600
    assert receiver.position == 700
    assert all_of(receiver, 1000).bodies == numbered(300, 700)
    receiver.close()


def test_where_no_event_comes_it_waits_no_longer_than_it_is_told(
    client: AmqpClient, running: EventHubsServer, hub: str
) -> None:
    receiver = client.receiver("$Default", "0", 0, None, 10)
    assert receiver.read(5, 0.1).numbers == []
    running.send(hub, [b"late"], partition=0)
    assert all_of(receiver, 1).bodies == [b"late"]
    receiver.close()


def test_a_busy_server_is_to_be_asked_again(client: AmqpClient, running: EventHubsServer) -> None:
    client.bounds(["0"])
    running.be_busy(1)
    with pytest.raises(BrokenOffError) as raised:
        client.bounds(["0"])
    assert raised.value.wait >= 1
    assert client.bounds(["0"])["0"].end == 0


def test_more_than_a_message_takes_is_sent_in_several(
    client: AmqpClient, running: EventHubsServer, hub: str
) -> None:
    client.send([Outgoing(bytes([number]) * 300_000) for number in range(8)], "0", None)
    found = [event.body[:1] for event in running.events(hub, 0)]
    assert found == [bytes([number]) for number in range(8)]


def test_a_wrong_key_is_refused_for_good_and_not_repeated(
    running: EventHubsServer, hub: str
) -> None:
    wrong = running.connection_string(hub).replace("c3BhcmtiZWFt", "d3Jvbmctc2VjcmV0")
    client = AmqpClient(ConnectionSettings(text=wrong))
    started = time.monotonic()
    for ask in (client.partitions, lambda: client.bounds(["0"])):
        with pytest.raises(EventHubsError) as raised:
            ask()
        assert not isinstance(raised.value, BrokenOffError)
        assert "d3Jvbmctc2VjcmV0" not in f"{raised.value!r}{raised.value.__cause__!r}"
    with pytest.raises(EventHubsError):
        client.send([Outgoing(b"x")], None, None)
    assert time.monotonic() - started < 60
    client.close()


class ClientAuthenticationError(Exception):
    """That of ``azure-core``, by its name."""


class Token(NamedTuple):
    """As ``azure-identity`` has it."""

    token: str
    expires_on: int


class Credential:
    """One of ``azure-identity``, whose tokens last for some seconds."""

    def __init__(self, text: str, seconds: int = 3600) -> None:
        self._endpoint = Endpoint.parse(text)
        self._seconds = seconds
        self.asked: list[tuple[str, ...]] = []

    def get_token(self, *scopes: str) -> Token:
        self.asked.append(scopes)
        if self._seconds < 0:
            raise ClientAuthenticationError("there is no such tenant; secret=hunter2")
        return Token(signature_for(self._endpoint, "any"), int(time.time()) + self._seconds)


def with_credential(credential: Credential, hub: str) -> AmqpClient:
    made = connection_of(None, hub, "any.example", lambda: credential)
    with pytest.MonkeyPatch.context() as patch:
        # The server for tests has another name, and no certificate.
        endpoint = replace(credential._endpoint, hub=hub, credential=credential)
        patch.setattr(ConnectionSettings, "endpoint", lambda _: endpoint)
        return AmqpClient(made)


@pytest.mark.parametrize(("seconds", "tokens"), [(3600, 1), (0, 3)])
def test_a_credential_gives_tokens_which_are_renewed_before_they_end(
    running: EventHubsServer, hub: str, seconds: int, tokens: int
) -> None:
    credential = Credential(running.connection_string(hub), seconds)
    client = with_credential(credential, hub)
    for _ in range(tokens):
        assert len(client.partitions()) == 4
    client.close()
    assert set(credential.asked) == {("https://eventhubs.azure.net/.default",)}
    assert len(credential.asked) >= tokens if tokens > 1 else len(credential.asked) == 1


def test_a_credential_without_a_token_is_an_error_that_is_not_repeated(
    running: EventHubsServer, hub: str
) -> None:
    client = with_credential(Credential(running.connection_string(hub), -1), hub)
    problem = "failed with ClientAuthenticationError: there is no such tenant"
    with pytest.raises(EventHubsError, match=problem) as e:
        client.partitions()
    assert not isinstance(e.value, BrokenOffError)
    assert "hunter2" not in f"{e.value!r}{e.value.__cause__!r}"


def test_a_token_that_cannot_be_had_now_is_asked_for_again(
    running: EventHubsServer, hub: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    credential = Credential(running.connection_string(hub))
    client = with_credential(credential, hub)
    with monkeypatch.context() as patch:
        patch.setattr(credential, "get_token", lambda scope: 1 / 0)
        with pytest.raises(BrokenOffError, match="ZeroDivisionError"):
            client.partitions()
    assert len(client.partitions()) == 4
    client.close()


def test_a_receiver_that_goes_on_renews_its_token(running: EventHubsServer, hub: str) -> None:
    running.send(hub, numbered(9), partition=0)
    credential = Credential(running.connection_string(hub), 0)
    client = with_credential(credential, hub)
    receiver = client.receiver("$Default", "0", 0, None, 10)
    before = len(credential.asked)
    assert [receiver.read(end, 10).numbers for end in (3, 6)] == [[0, 1, 2], [3, 4, 5]]
    assert len(credential.asked) == before + 2
    client.close()


def test_where_nobody_listens_it_is_to_be_tried_again() -> None:
    with EventHubsServer({"clicks": 1}) as gone:
        text = gone.connection_string("clicks")
    client = AmqpClient(ConnectionSettings(text=text))
    with pytest.raises(BrokenOffError):
        client.bounds(["0"])
    client.close()


def test_many_receivers_one_after_the_other_take_few_handles(
    running: EventHubsServer, hub: str
) -> None:
    running.send(hub, numbered(10), partition=0)
    client = connected(running, hub)
    before = running.counts().connections
    for number in range(300):
        first = client.receiver("$Default", "0", number % 9, 5, 10)
        second = client.receiver("$Default", "0", 0, 6 if number % 2 else 5, 10)  # It takes over.
        assert second.read(1, 10).bodies == [b"0"]
        first.close()
        second.close()
    client.bounds(["0"])
    assert client._wire is not None
    assert len(client._wire._links) < 12
    assert running.counts().connections - before <= 1
    client.close()

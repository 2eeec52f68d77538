"""The client that asks Kafka for offsets and its configuration."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest

from sparkbeam_kafka import client
from sparkbeam_kafka.client import Client, KafkaError
from sparkbeam_kafka.client_config import client_config
from sparkbeam_kafka.transactions import TransactionWriter

LOGIN = "org.apache.kafka.common.security.{} required {};"


def with_login(module: str, options: str) -> dict[str, str]:
    return {"sasl.jaas.config": LOGIN.format(module, options)}


def test_settings_of_the_connection_are_kept() -> None:
    config = {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "group.id": "g",
        "max.poll.records": "5",
        "key.deserializer": "x",
    }
    kept = [*config][:4]
    assert client_config(config) == {
        "isolation.level": "read_uncommitted",
        **{name: config[name] for name in kept},
    }


def test_records_of_transactions_are_read_as_a_java_consumer_does() -> None:
    assert client_config({})["isolation.level"] == "read_uncommitted"
    config = {"isolation.level": "read_committed"}
    assert client_config(config)["isolation.level"] == "read_committed"


@pytest.mark.parametrize("module", ["plain.PlainLoginModule", "scram.ScramLoginModule"])
def test_a_login_is_taken_apart(module: str) -> None:
    found = client_config(with_login(module, r'username="a b" password="p\"\\;="'))
    assert found["sasl.username"] == "a b"
    assert found["sasl.password"] == 'p"\\;='


def test_certificates_in_pem_and_pkcs12_are_kept() -> None:
    found = client_config(
        {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "/ca.pem",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": "/key.p12",
            "ssl.keystore.password": "secret",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert found == {
        "isolation.level": "read_uncommitted",
        "ssl.ca.location": "/ca.pem",
        "ssl.keystore.location": "/key.p12",
        "ssl.keystore.password": "secret",
        "ssl.endpoint.identification.algorithm": "none",
    }


Ask = Callable[[Client], Any]
ASKS: list[Ask] = [
    lambda client: client.committed([("t", 0)]),
    lambda client: client.commit({("t", 0): 5}),
]


def client_of(monkeypatch: pytest.MonkeyPatch, *codes: int, raised: bool) -> Client:
    """Return a client whose broker answers with errors before it answers with offset 5.

    Args:
        monkeypatch: of the test.
        codes: of the errors.
        raised: the request fails; without it, its partition does.
    """
    codes_left = [*codes]

    def answer(*_: Any, **__: Any) -> list[Any]:
        error = confluent_kafka.KafkaError(codes_left.pop(0)) if codes_left else None
        if error is not None and raised:
            raise confluent_kafka.KafkaException(error)
        return [SimpleNamespace(topic="t", partition=0, offset=5, error=error)]

    consumer = SimpleNamespace(committed=answer, commit=answer)
    monkeypatch.setattr(confluent_kafka, "Consumer", lambda *_, **__: consumer)
    return Client({"bootstrap.servers": "nowhere:1", "group.id": "g"})


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("raised", [True, False])
def test_a_group_that_moves_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, ask: Ask, raised: bool
) -> None:
    moving = confluent_kafka.KafkaError.NOT_COORDINATOR
    loading = confluent_kafka.KafkaError.COORDINATOR_LOAD_IN_PROGRESS
    assert ask(client_of(monkeypatch, moving, loading, raised=raised)) in ({("t", 0): 5}, None)


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("raised", [True, False])
def test_an_offset_that_is_refused_is_an_error(
    monkeypatch: pytest.MonkeyPatch, ask: Ask, raised: bool
) -> None:
    refused = confluent_kafka.KafkaError.GROUP_AUTHORIZATION_FAILED
    with pytest.raises(KafkaError, match="Group authorization failed"):
        ask(client_of(monkeypatch, refused, raised=raised))


def refusing(monkeypatch: pytest.MonkeyPatch, kind: str, call: str, code: int) -> None:
    """Has a client that does not answer, and tells the error ``code`` when it is polled."""

    def made(config: dict[str, Any], **_: Any) -> SimpleNamespace:
        def silent(*_: Any, **__: Any) -> None:
            raise confluent_kafka.KafkaException(
                confluent_kafka.KafkaError(confluent_kafka.KafkaError._TRANSPORT)
            )

        def poll(_: float) -> None:
            config["error_cb"](confluent_kafka.KafkaError(code, "of a connection"))

        return SimpleNamespace(poll=poll, close=lambda: None, **{call: silent})

    monkeypatch.setattr(confluent_kafka, kind, made)


@pytest.mark.parametrize(
    ("kind", "call", "ask"),
    [
        (
            "Consumer",
            "list_topics",
            lambda config: Client(config).partitions(["t"]),
        ),
        (
            "Producer",
            "init_transactions",
            lambda config: TransactionWriter({**config, "transactional.id": "x"}, "t").open(0, 3),
        ),
    ],
)
def test_a_login_that_is_refused_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch, kind: str, call: str, ask: Any
) -> None:
    refusing(monkeypatch, kind, call, confluent_kafka.KafkaError._AUTHENTICATION)
    with pytest.raises(KafkaError, match=r"^of a connection$"):
        ask({"bootstrap.servers": "nowhere:1"})


def test_a_broker_that_does_not_answer_is_told_with_the_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "SECONDS", 0.0)
    refusing(monkeypatch, "Consumer", "list_topics", confluent_kafka.KafkaError._RESOLVE)
    with pytest.raises(KafkaError, match=r"Broker transport failure: of a connection$"):
        Client({"bootstrap.servers": "nowhere:1"}).partitions(["t"])


def test_a_transaction_does_not_begin_while_it_is_unknown_what_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = confluent_kafka.KafkaError.GROUP_AUTHORIZATION_FAILED
    consumer = client_of(monkeypatch, refused, raised=False)._consumer
    consumer.close = lambda: None
    producer = SimpleNamespace(init_transactions=lambda seconds: None)
    monkeypatch.setattr(confluent_kafka, "Producer", lambda *_, **__: producer)
    config = {"bootstrap.servers": "nowhere:1", "transactional.id": "x"}
    with pytest.raises(KafkaError, match="Group authorization failed"):
        TransactionWriter(config, "t").open(0, 3)

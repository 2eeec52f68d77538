"""A worker's connection to Spark."""

import socket
from collections.abc import Iterator

import pytest

from sparkbeam.worker import spark_connection


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The two ends of a connection over TCP."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    with one, other:
        yield one, other


def is_hurried(end: socket.socket) -> bool:
    return bool(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))


def test_a_connection_does_not_wait_for_acknowledgements(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    one, other = pair
    spark_connection.disable_nagle(one)
    assert is_hurried(one)
    assert not is_hurried(other)
    one.sendall(b"there")
    assert other.recv(5) == b"there"


def test_one_within_a_machine_is_left_alone() -> None:
    one, other = socket.socketpair()
    with one, other:
        spark_connection.disable_nagle(one)
        one.sendall(b"there")
        assert other.recv(5) == b"there"


def test_that_of_a_task_is_found_and_stays_open(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    with one.makefile("wb") as stream:
        monkeypatch.setattr(spark_connection, "output_of_task", lambda: stream)
        spark_connection.hurry_task()
        assert is_hurried(one)
        stream.write(b"there")
        stream.flush()
        assert other.recv(5) == b"there"


def test_there_may_be_no_task() -> None:
    spark_connection.hurry_task()


def test_a_task_may_write_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("output") / "file"
    with file.open("wb") as stream:
        monkeypatch.setattr(spark_connection, "output_of_task", lambda: stream)
        spark_connection.hurry_task()
        stream.write(b"there")
    assert file.read_bytes() == b"there"

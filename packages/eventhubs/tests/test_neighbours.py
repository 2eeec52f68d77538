"""Processes of a machine read with each other's receivers."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing.connection import Listener
from pathlib import Path

import pytest
from hubs import connection, numbered, options, range_of

from pyspark_eventhubs.events import Events, StolenError
from pyspark_eventhubs.pool import Pool, ReceiverSettings
from pyspark_eventhubs.receiver_sharing import Neighbours, name_of
from pyspark_eventhubs.testing import EventHubsServer

READS = """
import sys
from pathlib import Path
from hubs import range_of
from pyspark_eventhubs.source_options import SourceOptions
from pyspark_eventhubs.pool import Pool

source = SourceOptions.parse({"connectionString": sys.argv[1]})
pool = Pool(Path(sys.argv[2]))
print(len(range_of(source, 0, 10, pool, epoch=5)), flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def events(server: EventHubsServer) -> None:
    server.send("clicks", numbered(100), partition=0)


@pytest.fixture
def pools(tmp_path: Path) -> Iterator[tuple[Pool, Pool]]:
    folder = tmp_path / "n"
    found = Pool(folder), Pool(folder)
    yield found
    for pool in found:
        pool.close()
    assert not [path for path in folder.glob("*") if path.is_socket()]


def test_whoever_reads_next_uses_the_receiver_that_is_there(
    server: EventHubsServer, pools: tuple[Pool, Pool]
) -> None:
    source = options(server)
    for at in range(0, 100, 10):
        pool = pools[at // 10 % 3 % 2]
        assert range_of(source, at, at + 10, pool, epoch=5) == numbered(10, at)
    assert server.counts().receivers == 1
    assert (pools[0].made, pools[1].made, pools[1].borrowed) == (1, 0, 3)


def test_events_are_whole_after_they_were_lent(
    server: EventHubsServer, pools: tuple[Pool, Pool]
) -> None:
    given = {"t": "ä", "n": None, "y": b"\x00\xff", "i": -(2**63)}
    for body in (b"", b"\x00\xff" * 700, "ä".encode()):
        server.send("clicks", [body], partition=1, properties=given, partition_key="ключ")
    source = options(server)
    reading = ReceiverSettings(source.connection, source.group, "1", 5, source.prefetch)
    alone = pools[0].read(reading, 0, 3, 5)
    server.send("clicks", alone.bodies, partition=1, properties=given, partition_key="ключ")
    lent = pools[1].read(reading, 3, 6, 5, shared=True)
    assert pools[1].borrowed == 1
    assert lent.columns()[3:] == alone.columns()[3:]
    assert lent.numbers == [3, 4, 5]


def test_a_process_that_is_killed_leaves_its_receiver_to_others(
    server: EventHubsServer, tmp_path: Path
) -> None:
    text, folder = server.connection_string("clicks"), tmp_path / "n"
    pool = Pool(folder)
    other = subprocess.Popen(
        [sys.executable, "-c", READS, text, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parent,
    )
    assert other.stdout is not None
    assert other.stdout.readline() == b"10\n"
    source = options(server)
    assert range_of(source, 10, 20, pool, epoch=5) == numbered(10, 10)
    assert (server.counts().receivers, pool.borrowed) == (1, 1)
    other.kill()
    other.communicate()
    assert range_of(source, 20, 30, pool, epoch=5) == numbered(10, 20)
    assert (server.counts().receivers, pool.made) == (2, 1)
    pool.close()
    again = Pool(folder)
    assert range_of(source, 30, 40, again, epoch=5) == numbered(10, 30)
    sockets = [path for path in folder.iterdir() if path.is_socket() and not path.is_symlink()]
    assert len(sockets) == 1, "those of processes that have ended are gone"
    again.close()


def test_a_receiver_elsewhere_or_in_use_is_not_lent(
    server: EventHubsServer, pools: tuple[Pool, Pool]
) -> None:
    first, second = pools
    source = options(server)
    range_of(source, 0, 10, first, epoch=5)
    assert range_of(source, 40, 50, second, epoch=5) == numbered(10, 40)
    assert second.made == 1, "another place, as when a micro-batch runs again"
    with second.client(connection(server)):
        assert range_of(source, 50, 60, first, epoch=5) == numbered(10, 50)
    assert first.made == 2, "it is in use"


def test_a_receiver_is_ended_in_whatever_process_has_it(
    server: EventHubsServer, pools: tuple[Pool, Pool]
) -> None:
    first, second = pools
    source = options(server)
    range_of(source, 0, 10, first, epoch=5)
    second.end(ReceiverSettings(source.connection, source.group, "0", 5, source.prefetch))
    assert range_of(source, 10, 20, second, epoch=4) == numbered(10, 10), "no epoch is in the way"
    assert server.counts().stolen == 0
    second.end(ReceiverSettings(source.connection, source.group, "1", 5, source.prefetch))


def test_the_error_of_a_receiver_that_is_lent_is_told(
    server: EventHubsServer, pools: tuple[Pool, Pool]
) -> None:
    first, second = pools
    source = options(server)
    reading = ReceiverSettings(source.connection, source.group, "0", 5, source.prefetch)
    first.read(reading, 0, 100, 5)
    server.steal("clicks", 0)
    with pytest.raises(StolenError, match="higher epoch"):
        second.read(reading, 100, 110, 5, shared=True)
    assert second.read(reading, 50, 60, 5, shared=True).numbers[0] == 50


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    def lend(name: str, position: int, end: int, seconds: float) -> Events:
        return Events()

    tmp_path.chmod(0o777)
    one, other = Neighbours(lend, tmp_path), Neighbours(lend, tmp_path)
    one.tell("a")
    assert not list(tmp_path.iterdir())
    (tmp_path / "a").symlink_to("somewhere")
    assert other.read("a", 0, 1, 1) is None
    tmp_path.chmod(0o700)
    one.tell("a")
    assert other.read("a", 0, 1, 1) == Events()
    one.close()


@pytest.mark.parametrize("words", [b"", b"{", b"1", b"[" * 100_000])
def test_who_talks_nonsense_is_no_neighbour(tmp_path: Path, words: bytes) -> None:
    folder = tmp_path / "n"
    folder.mkdir(mode=0o700)
    (folder / "hub").symlink_to("nonsense")

    def answer(listener: Listener) -> None:
        with listener.accept() as asker:
            asker.recv_bytes()
            asker.send_bytes(words)

    with Listener(str(folder / "nonsense"), "AF_UNIX") as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        assert Neighbours(lambda *_: None, folder).read("hub", 0, 1, 5.0) is None
        thread.join()
    assert not (folder / "hub").is_symlink()


def test_names_have_no_secret_in_them_and_differ_by_it(server: EventHubsServer) -> None:
    one = ReceiverSettings(connection(server), "$Default", "0", None, 9)
    text = server.connection_string("clicks").replace("SharedAccessKey=", "SharedAccessKey=x")
    other = ReceiverSettings(type(one.connection)(text=text), "$Default", "0", None, 9)
    assert name_of(one) != name_of(other)
    assert name_of(one).isalnum()

"""What listens takes a bounded number of connections, and leaves the process its descriptors."""

import contextlib
import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from listening import Listening
from waiting import until

from sparkbeam import SparkBeamOptions, SparkRunner
from sparkbeam.common.acceptor import Guests, is_at_home
from sparkbeam.observe.collection import printed_output
from sparkbeam.observe.collection.notes import Notes
from sparkbeam.observe.collection.printed_output import OutputListener
from sparkbeam.observe.page import server as pages
from sparkbeam.observe.page.server import PageServer
from sparkbeam.observe.sinks import prometheus
from sparkbeam.observe.sinks.metrics_sink import PushedMetrics
from sparkbeam.observe.sinks.prometheus import PrometheusSink
from sparkbeam.observe.views.metric_results import SparkMetrics

PATIENCE = 10.0


@contextlib.contextmanager
def silent(port: int, count: int, said: bytes = b"") -> Iterator[list[socket.socket]]:
    """Connections of somebody who says nothing, or never all of it."""
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            with contextlib.suppress(OSError):
                each = stack.enter_context(socket.create_connection(("127.0.0.1", port), 5))
                each.settimeout(PATIENCE)
                if said:
                    each.sendall(said)
                opened.append(each)
        yield opened


def is_ended(connection: socket.socket) -> bool:
    """Whether the other side ends a connection, before we lose patience."""
    try:
        while connection.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def goes_on(connection: socket.socket) -> bool:
    """Says a little more; false where nobody listens any more."""
    try:
        connection.sendall(b"X")
    except OSError:
        return False
    return True


@pytest.fixture
def listener() -> Iterator[tuple[OutputListener, Notes]]:
    notes = Notes()
    started = OutputListener(notes)
    yield started, notes
    started.close()


def serving() -> tuple[PrometheusSink, int]:
    """A sink of metrics for Prometheus, and its port."""
    sink = PrometheusSink(PipelineOptions(["--metrics_prometheus_address=127.0.0.1:0"]))
    sink.write(PushedMetrics(SparkMetrics([], []), (), 0.0))
    assert sink.port is not None
    return sink, sink.port


def worker(found: OutputListener) -> socket.socket:
    """A worker of the run, which has greeted."""
    connection = socket.create_connection(("127.0.0.1", found.relay.port), 5)
    connection.sendall(json.dumps([found.relay.token, 1]).encode() + b"\n")
    return connection


def status(port: int, **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics", headers=headers)
        return connection.getresponse().status


# The guests of one place.


def test_a_stranger_goes_when_its_time_is_over() -> None:
    now, gone = 0.0, list[str]()
    guests = Guests[str](gone.append, 5, 10, 10, clock=lambda: now)
    guests.enter("a")
    now = 3.0
    guests.enter("b")
    guests.enter("known")
    assert guests.know("known")
    assert guests.sweep() == 2
    now = 5.0
    assert guests.sweep() == 3
    assert gone == ["a"]
    now = 100.0
    assert guests.sweep() is None
    assert gone == ["a", "b"]


def test_of_too_many_strangers_the_first_one_goes() -> None:
    gone: list[int] = []
    guests = Guests[int](gone.append, 5, 10, 3)
    for number in range(5):
        guests.enter(number)
    assert gone == [0, 1]


def test_of_those_that_may_be_here_there_are_not_too_many() -> None:
    gone: list[int] = []
    guests = Guests[int](gone.append, 5, 2, 9)
    for number in range(3):
        guests.enter(number)
    assert [guests.know(number) for number in range(3)] == [True, True, False]
    assert gone == [2]
    guests.leave(0)
    guests.enter(3)
    assert guests.know(3)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("LOCALHOST:80", True),
        ("127.0.0.1:9464", True),
        ("10.1.2.3", True),
        ("[::1]:80", True),
        ("[fe80::1]", True),
        ("metrics.internal:9464", True),
        ("evil.example", False),
        ("evil.example:9464", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example:1", False),
        ("evil.example:80:localhost", False),
        ("", False),
        ("\0", False),
    ],
)
def test_a_host_is_an_address_or_a_name_of_this_machine(host: str, expected: bool) -> None:
    assert is_at_home(host, "metrics.internal") is expected


# Lines of steps.


def test_workers_are_heard_among_hundreds_that_say_nothing(
    listener: tuple[OutputListener, Notes],
) -> None:
    found, notes = listener
    with worker(found) as first, silent(found.relay.port, 400):
        for each in (first, worker(found)):
            each.sendall(json.dumps(["stderr", "Step", f"line {each.fileno()}"]).encode() + b"\n")
        until(lambda: len(notes.recent()) == 2, PATIENCE)


def test_who_does_not_greet_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed_output, "_GREETING_SECONDS", 0.2)
    found = OutputListener()
    with silent(found.relay.port, 3) as some, silent(found.relay.port, 3, b'["slow') as others:
        assert all(map(is_ended, [*some, *others]))
    found.close()


def test_a_worker_may_be_silent_for_as_long_as_it_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed_output, "_GREETING_SECONDS", 0.1)
    notes = Notes()
    found = OutputListener(notes)
    with worker(found) as at_work, silent(found.relay.port, 1) as (other,):
        assert is_ended(other)
        at_work.sendall(json.dumps(["stderr", "Step", "line"]).encode() + b"\n")
        until(notes.recent, PATIENCE)
    found.close()


# What answers to HTTP: metrics for Prometheus, and the live page.


@pytest.fixture(params=["metrics", "page"])
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    started: Any = serving()[0] if request.param == "metrics" else PageServer()
    yield started.port
    started.close()


def test_requests_are_answered_among_hundreds_that_ask_nothing(port: int) -> None:
    with silent(port, 300), silent(port, 100, b"GET / HTTP/1.1\r\nHost: 127"):
        assert status(port) in (200, 404)


@pytest.mark.parametrize(("host", "is_refused"), [("evil.example", True), ("localhost:1", False)])
def test_pages_of_elsewhere_are_refused(port: int, host: str, is_refused: bool) -> None:
    assert (status(port, Host=host) == 403) is is_refused


def test_a_request_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "_REQUEST_SECONDS", 0.3)
    sink, port = serving()
    with silent(port, 1, b"GET /metrics HTTP/1.1\r\n") as (slow,):
        until(lambda: not goes_on(slow), PATIENCE)
    sink.close()


def test_who_has_no_token_may_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_STRANGE_SECONDS", 0.2)
    monkeypatch.setattr(pages, "_SWEEP_SECONDS", 0.05)
    started = PageServer()
    with (
        silent(started.port, 2) as some,
        silent(started.port, 2, b"GET /x/ HTTP/1.1\r\nHost: localhost\r\n\r\n") as others,
    ):
        assert all(map(is_ended, [*some, *others]))
    started.close()


# Where the process has few descriptors.

PROGRAM = """
import resource, socket, sys, threading, time
sys.path.insert(0, {tests!r})
import test_acceptor as tests
kind = sys.argv[1]
if kind == "output":
    from sparkbeam.observe.collection.printed_output import OutputListener
    found = OutputListener(tests.Notes()); port = found.relay.port
elif kind == "page":
    from sparkbeam.observe.page.server import PageServer
    found = PageServer(); port = found.port
else:
    found, port = tests.serving()
taken = []
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
try:
    while True:
        taken.append(open("/dev/null"))
except OSError:
    pass
print(port, flush=True)
sys.stdin.readline()                      # Somebody has connected.
before = time.process_time(), time.monotonic()
time.sleep(0.5)
used = time.process_time() - before[0]
for each in taken:
    each.close()
print(used, flush=True)
sys.stdin.readline()
"""


@pytest.mark.part(3)
@pytest.mark.parametrize("kind", ["output", "page", "prometheus"])
def test_without_descriptors_nothing_spins_and_all_works_again_later(kind: str) -> None:
    tests = str(Path(__file__).parent)
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(tests=tests), kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    with program, contextlib.ExitStack() as stack:
        stack.callback(program.kill)
        port = int(program.stdout.readline())
        some = stack.enter_context(silent(port, 40))
        program.stdin.write("\n")
        program.stdin.flush()
        used = float(program.stdout.readline())
        assert used < 0.35  # Of half a second: a thread that spins takes all of it.
        if kind == "output":
            assert is_ended(some[0])
        else:
            assert status(port) in (200, 404)


# What other machines can reach: nothing; see ``connect/suite.py`` too.


def test_all_sockets_are_on_loopback(spark: Any) -> None:
    assert spark.sparkContext.uiWebUrl, "Spark's own pages are among them"
    options = SparkBeamOptions(["--streaming", "--spark_page", "--spark_progress=on"])
    with Listening() as sockets, beam.Pipeline(SparkRunner(spark), options) as p:
        pairs = p | beam.Create(range(100)) | beam.Map(lambda number: (number % 3, number))
        _ = pairs | beam.GroupByKey() | beam.Map(lambda group: len(list(group[1])))
    assert sockets.elsewhere() == []

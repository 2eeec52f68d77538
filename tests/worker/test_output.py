"""What steps print and log reaches the user, wherever they run."""

import contextlib
import io
import socket
import sys
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import FixedWindows
from in_process import StreamingRunner
from waiting import until

from sparkbeam.observe.collection.printed_output import OutputListener, tell
from sparkbeam.wire.output_lines import MOST_LINES, STDERR, STDOUT, OutputLine, OutputSpec, Written
from sparkbeam.wire.reports import TaskReport
from sparkbeam.worker import captured_output
from sparkbeam.worker.output_socket import OUTPUT_SOCKET, Outlet


@contextlib.contextmanager
def in_worker(monkeypatch: pytest.MonkeyPatch, spec: OutputSpec) -> Iterator[io.StringIO]:
    """As in a worker of Spark; gives what goes to its own standard output."""
    own = io.StringIO()
    with monkeypatch.context() as patch:
        patch.setattr("pyspark.TaskContext.get", lambda: object())
        patch.setattr(sys, "stdout", own)
        with captured_output.redirected(spec):
            yield own


@pytest.fixture
def listener() -> Iterator[OutputListener]:
    listener = OutputListener()
    yield listener
    listener.close()


def test_lines_reach_a_driver_on_the_same_machine_at_once(
    monkeypatch: pytest.MonkeyPatch, listener: OutputListener
) -> None:
    heard: list[tuple[str, str]] = []
    # Worker and driver share the standard streams here.
    monkeypatch.setattr(
        "sparkbeam.observe.collection.printed_output.write", lambda *written: heard.append(written)
    )
    with in_worker(monkeypatch, OutputSpec(relay=listener.relay)) as own:
        print("one")
        until(lambda: heard == [(STDOUT, "one")])
        print("two", end="")
        assert not captured_output.take_written()
    OUTPUT_SOCKET.open(None)
    until(lambda: heard == [(STDOUT, "one"), (STDOUT, "two")])
    assert own.getvalue() == ""


def test_what_an_earlier_task_has_left_is_not_told_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for text in ("one", "two"):
        with in_worker(monkeypatch, OutputSpec()):
            print(text)
            written = captured_output.take_written() if text == "two" else None
    assert written == Written((OutputLine(STDOUT, "-", "two"),))


def test_without_such_a_driver_they_travel_with_the_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with in_worker(monkeypatch, OutputSpec()) as own:
        print("one")
        print("two")
        written = captured_output.take_written()
    assert [line.text for line in written.lines] == ["one", "two"]
    # Spark keeps them with the executor's logs as ever.
    assert own.getvalue() == "one\ntwo\n"
    report = TaskReport("stage", [], written=written)
    assert TaskReport.parse(report.serialize()).written == written


def test_after_a_task_nothing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    with in_worker(monkeypatch, OutputSpec()) as own:
        stream = sys.stdout
    print("between tasks", file=stream)
    assert not OUTPUT_SOCKET.take_written()
    assert own.getvalue() == "between tasks\n"


def test_a_driver_that_has_gone_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, listener: OutputListener
) -> None:
    relay = listener.relay
    listener.close()
    with in_worker(monkeypatch, OutputSpec(relay=relay)):
        print("one")
        assert [line.text for line in captured_output.take_written().lines] == ["one"]


def lines(step: str, count: int) -> list[OutputLine]:
    return [OutputLine(STDOUT, step, str(number)) for number in range(count)]


def test_of_many_lines_the_first_travel_and_the_others_are_counted() -> None:
    outlet = Outlet()
    for line in [*lines("Loud", 5 * MOST_LINES), *lines("Quiet", 1)]:
        outlet.write(line)
    written = outlet.take_written()
    assert written.lines == (*lines("Loud", MOST_LINES), *lines("Quiet", 1))
    assert written.more == {"Loud": 4 * MOST_LINES}
    again = written.plus(Written.from_lines(lines("Loud", 3)))
    assert again.lines == written.lines
    assert again.more == {"Loud": 4 * MOST_LINES + 3}


def test_a_hint_tells_where_the_other_lines_are(capsys: pytest.CaptureFixture[str]) -> None:
    some = Written.from_lines(
        [*lines("Loud", MOST_LINES + 2), OutputLine(STDERR, "Log", "INFO:Log:x")]
    )
    tell([TaskReport("stage", [], written=some)])
    told = capsys.readouterr()
    assert told.out.splitlines() == [str(number) for number in range(MOST_LINES)]
    assert told.err.splitlines()[0] == "INFO:Log:x"
    assert "step 'Loud' wrote 2 more lines: see the logs of Spark's executors" in told.err


def test_where_reports_have_to_be_repeatable_lines_are_only_counted() -> None:
    written = Written.from_lines(lines("Loud", MOST_LINES + 2)).counted()
    assert not written.lines
    assert written.more == {"Loud": MOST_LINES + 2}


def test_the_step_is_known_at_which_a_worker_has_died(listener: OutputListener) -> None:
    worker, other = Outlet(), Outlet()
    for outlet, steps in ((worker, "Parse"), (other, "Write")):
        outlet.open(listener.relay)
        outlet.at(steps)
    other.close()
    for outlet in (other, worker):
        outlet.open(None)  # Its connection ends.
    until(lambda: listener.died() == ["Parse"])


def test_who_does_not_know_the_token_is_not_heard(
    listener: OutputListener, capsys: pytest.CaptureFixture[str]
) -> None:
    for greeting in (b'["wrong", 1]\n["stdout", "", "evil"]\n', b"x" * 5000, b"[]\n"):
        with socket.create_connection(("127.0.0.1", listener.relay.port)) as stranger:
            stranger.sendall(greeting)
            with contextlib.suppress(ConnectionError):
                assert stranger.recv(1) == b""
    listener.close()
    assert capsys.readouterr().out == ""


class Context:
    """Of a task of Spark."""

    def partitionId(self) -> int:
        return 0

    def stageId(self) -> int:
        return 0


@pytest.mark.parametrize("here", [True, False], ids=["on this machine", "elsewhere"])
def test_what_the_steps_of_a_stream_print_comes_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], here: bool
) -> None:
    monkeypatch.setattr("pyspark.TaskContext.get", Context)
    monkeypatch.setattr("sparkbeam.observe.monitor.may_reach_loopback", lambda _: here)
    with beam.Pipeline(StreamingRunner()) as pipeline:
        (
            pipeline
            | TestStream().add_elements(["a", "b"]).advance_watermark_to_infinity()
            | "First" >> beam.Map(lambda text: print("first", text) or (text, text))
            | beam.WindowInto(FixedWindows(10))
            | beam.GroupByKey()
            | "Second" >> beam.Map(lambda pair: print("second", pair[0]))
        )
    OUTPUT_SOCKET.open(None)
    # Elsewhere the worker's own output has them as well; here it is the same stream.
    times = 1 if here else 2
    expected = sorted(times * ["first a", "first b", "second a", "second b"])
    assert sorted(capsys.readouterr().out.splitlines()) == expected


def test_nothing_is_caught_outside_of_spark(capsys: Any) -> None:
    with captured_output.redirected(OutputSpec()):
        print("here")
    assert capsys.readouterr().out == "here\n"
    assert not OUTPUT_SOCKET.take_written()

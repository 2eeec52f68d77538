"""From the workers' datagrams to figures."""

import socket
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import pytest
from apache_beam.metrics import monitoring_infos
from in_process import Conf, Spark

from sparkbeam.common.datagrams import sealed
from sparkbeam.observe.collection.batch_tracker import BatchTracker
from sparkbeam.observe.collection.listener import Listener, reachable_at
from sparkbeam.observe.figures.progress import StageProgress
from sparkbeam.plan.model import Exchange, Plan, Port, SideInput, Stage
from sparkbeam.plan.row_formats import ElementRows, SideInputRows
from sparkbeam.wire.reports import ElementCounts, Reporter, Signal, SignalKind, TaskReport

STARTED, RUNNING, FINISHED, FAILED, READ = SignalKind


def stage(
    number: int, exchange: Exchange, *inputs: int, side_inputs: tuple[int, ...] = ()
) -> Stage:
    """The stage ``s<number>``, whose one port has its number as tag."""
    return Stage(
        id=f"s{number}",
        labels=(f"Step {number}",),
        descriptor=b"",
        source_id=f"source_s{number}",
        exchange=exchange,
        format=ElementRows(),
        inputs=inputs,
        grouped=None,
        ports=(Port(number, f"pc{number}", ElementRows(), f"sink_{number}"),),
        side_inputs=tuple(
            SideInput("t", f"side{tag}", "t", SideInputRows(), (tag,)) for tag in side_inputs
        ),
    )


CHAIN = Plan(
    (stage(0, Exchange.IMPULSE), stage(1, Exchange.FORWARD, 0), stage(2, Exchange.BY_KEY, 1))
)


@pytest.fixture
def tracker() -> BatchTracker:
    return BatchTracker(CHAIN)


@pytest.fixture
def listener(tracker: BatchTracker) -> Iterator[Listener]:
    listener = Listener(tracker.record_signal)
    yield listener
    listener.close()


def states(tracker: BatchTracker) -> list[str]:
    return [stage.state.value for stage in tracker.snapshot().stages]


def first(tracker: BatchTracker) -> StageProgress:
    return tracker.snapshot().stages[0]


def report(count: int, stage_id: str = "s0") -> TaskReport:
    """What a task with a counter and as many elements reports."""
    info = monitoring_infos.int64_user_counter("test", "seen", count, ptransform="Step 0")
    return TaskReport(stage_id, [info], counts=ElementCounts(count, count))


# The socket.


def test_signals_arrive(tracker: BatchTracker, listener: Listener) -> None:
    listener.reporter.send(Signal(STARTED, "s0", 0))
    listener.reporter.send(Signal(FINISHED, "s0", 0, ElementCounts(3, 7)))
    listener.close()
    assert first(tracker).tasks_done == 1
    assert (first(tracker).elements, first(tracker).busiest) == (3, 7)


def test_closing_takes_in_what_has_arrived(tracker: BatchTracker, listener: Listener) -> None:
    for partition in range(500):
        listener.reporter.send(Signal(STARTED, "s0", partition))
    listener.close()
    assert first(tracker).tasks_started == 500


def test_closing_twice_is_fine(listener: Listener) -> None:
    listener.close()
    listener.close()


@pytest.mark.parametrize(
    ("conf", "found"),
    [
        ({"spark.master": "local[2]"}, ("127.0.0.1", "127.0.0.1")),
        (
            {"spark.master": "spark://one:7077", "spark.driver.host": "127.0.0.9"},
            ("127.0.0.9", "127.0.0.9"),
        ),
        (
            {
                "spark.master": "k8s://one",
                "spark.driver.host": "127.0.0.9",
                "spark.driver.bindAddress": "0.0.0.0",
            },
            ("127.0.0.9", "0.0.0.0"),
        ),
    ],
)
def test_workers_reach_the_driver_where_spark_says(
    conf: dict[str, str], found: tuple[str, str]
) -> None:
    spark = Spark()
    spark.conf = Conf(conf)
    assert reachable_at(spark) == found


def test_the_port_is_free_after_closing(listener: Listener) -> None:
    listener.close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as successor:
        successor.bind(("127.0.0.1", listener.reporter.port))


def test_a_wrong_token_is_ignored(tracker: BatchTracker, listener: Listener) -> None:
    for token in ("", "0" * 32, "ü"):
        Reporter("127.0.0.1", listener.reporter.port, token).send(Signal(STARTED, "s0", 0))
    listener.close()
    assert first(tracker).tasks_started == 0


def signal_with(**changes: object) -> Callable[[str], bytes]:
    def datagram(token: str) -> bytes:
        return sealed({**asdict(Signal(STARTED, "s0", 0)), **changes}, token)

    return datagram


@pytest.mark.parametrize(
    "garbage",
    [
        lambda _: b"",
        lambda _: b"\xff\x00 no JSON",
        lambda _: b"[" * 60_000,
        lambda _: b"[1, 2]",
        lambda _: b"{}",
        signal_with(stage="unknown"),
        signal_with(stage=["s0"]),
        signal_with(kind="invented"),
        signal_with(partition=-1),
        signal_with(partition="0"),
        signal_with(partition=True),
        signal_with(counts=[1]),
        signal_with(counts=[-1, 0]),
        signal_with(counts="many"),
        signal_with(report=1),
        signal_with(attempt=1),
        signal_with(number=-1),
        signal_with(more=1),
    ],
)
def test_garbage_is_ignored(
    tracker: BatchTracker, listener: Listener, garbage: Callable[[str], bytes]
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        address = ("127.0.0.1", listener.reporter.port)
        sender.sendto(garbage(listener.reporter.token), address)
    listener.reporter.send(Signal(STARTED, "s0", 5))
    listener.close()
    assert first(tracker).tasks_started == 1


def test_a_report_too_large_for_a_datagram_is_left_out(
    tracker: BatchTracker, listener: Listener
) -> None:
    listener.reporter.send(Signal(FAILED, "s0", 0, report="x" * 100_000))
    listener.close()
    assert first(tracker).tasks_failed == 1


def test_a_reporter_without_a_listener_does_nothing() -> None:
    Reporter("127.0.0.1", 9, "token").send(Signal(STARTED, "s0", 0))
    Reporter("256.1.1.1", 9, "token").send(Signal(STARTED, "s0", 0))


def test_nobody_may_listen_at_a_foreign_address(tracker: BatchTracker) -> None:
    with pytest.raises(OSError, match=r".+"):
        Listener(tracker.record_signal, "192.0.2.200")


# Tasks and elements.

COUNTED: dict[str, tuple[list[tuple[SignalKind, int, int, int]], tuple[int, ...]]] = {
    "a task counts once, however often it runs": (
        [(kind, 0, 5, 5) for kind in (STARTED, FINISHED, STARTED, RUNNING, FINISHED)],
        (1, 1, 0, 5, 5),
    ),
    "elements are those of the attempt that is farthest": (
        [(RUNNING, 0, 50, 10), (FAILED, 0, 60, 10), (RUNNING, 0, 20, 30), (RUNNING, 1, 1, 1)],
        (2, 0, 1, 61, 31),
    ),
    "the first attempt that succeeds settles the elements": (
        [(RUNNING, 0, 50, 50), (FINISHED, 0, 40, 40), (RUNNING, 0, 90, 90), (FINISHED, 0, 91, 91)],
        (1, 1, 0, 40, 40),
    ),
    "every failed attempt counts": ([(FAILED, 0, 0, 0), (FAILED, 0, 0, 0)], (1, 0, 2, 0, 0)),
}
"""Signals, and the tasks that have started, are done and have failed, with their elements."""


@pytest.mark.parametrize(("signals", "found"), COUNTED.values(), ids=COUNTED)
def test_tasks_and_elements(tracker: BatchTracker, signals: Any, found: tuple[int, ...]) -> None:
    for kind, partition, *counts in signals:
        tracker.record_signal(Signal(kind, "s0", partition, ElementCounts(*counts)))
    of = first(tracker)
    assert found == (of.tasks_started, of.tasks_done, of.tasks_failed, of.elements, of.busiest)


def test_committed_reports_make_the_figures_exact(tracker: BatchTracker) -> None:
    tracker.record_signal(Signal(STARTED, "s0", 0))
    tracker.end([report(10), report(20)])
    assert first(tracker).tasks_started == first(tracker).tasks_done == 2
    assert first(tracker).elements == 30


def test_signals_after_the_end_are_ignored(tracker: BatchTracker) -> None:
    tracker.end(None)
    tracker.record_signal(Signal(STARTED, "s0", 0))
    assert states(tracker) == ["waiting"] * 3


def test_seconds_run_while_the_stage_does() -> None:
    now = [100.0]
    tracker = BatchTracker(CHAIN, clock=lambda: now[0])
    tracker.record_signal(Signal(STARTED, "s0", 0))
    now[0] = 102.0
    tracker.record_signal(Signal(RUNNING, "s0", 0, ElementCounts(30, 50)))
    now[0] = 105.0
    assert first(tracker).seconds == 5
    assert first(tracker).per_second == 10
    tracker.end([])
    now[0] = 200.0
    assert first(tracker).seconds == 2


# States.


STATES: dict[str, tuple[list[tuple[SignalKind, str]], list[str]]] = {
    "stages wait": ([], ["waiting", "waiting", "waiting"]),
    "for their first task": ([(STARTED, "s0")], ["running", "waiting", "waiting"]),
    "a stage may have more tasks than those that are done": (
        [(FINISHED, "s0"), (STARTED, "s1")],
        ["running", "running", "waiting"],
    ),
    "all before a shuffle is done when its reader starts": (
        [(STARTED, "s2")],
        ["done", "done", "running"],
    ),
    "a retry that works leaves a stage running": (
        [(FAILED, "s0"), (STARTED, "s0")],
        ["running", "waiting", "waiting"],
    ),
}


@pytest.mark.parametrize(("signals", "found"), STATES.values(), ids=STATES)
def test_states(tracker: BatchTracker, signals: Any, found: list[str]) -> None:
    for kind, stage_id in signals:
        tracker.record_signal(Signal(kind, stage_id, 0))
    assert states(tracker) == found


def test_a_side_input_is_done_when_its_reader_starts() -> None:
    tracker = BatchTracker(
        Plan(
            (
                stage(0, Exchange.IMPULSE),
                stage(1, Exchange.IMPULSE),
                stage(2, Exchange.FORWARD, 1, side_inputs=(0,)),
            )
        )
    )
    tracker.record_signal(Signal(STARTED, "s2", 0))
    assert states(tracker) == ["done", "waiting", "running"]


def test_success_makes_every_stage_done(tracker: BatchTracker) -> None:
    tracker.end([])
    assert states(tracker) == ["done", "done", "done"]


def test_failure_tells_failed_stages_from_those_it_stopped(tracker: BatchTracker) -> None:
    tracker.record_signal(Signal(STARTED, "s0", 0))
    tracker.record_signal(Signal(FAILED, "s1", 0))
    tracker.end(None)
    assert states(tracker) == ["stopped", "failed", "waiting"]


def test_what_a_task_has_read_says_nothing_of_its_own(tracker: BatchTracker) -> None:
    tracker.record_signal(Signal(READ, "s2", 0, report=report(3).pack()))
    assert states(tracker) == ["waiting", "waiting", "waiting"]

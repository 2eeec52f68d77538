"""From the workers' datagrams to figures."""

import socket
from collections.abc import Callable, Iterator
from dataclasses import asdict

import pytest
from apache_beam.metrics import monitoring_infos
from golden_files import Golden, sections
from in_process import Conf, Spark
from plans import stage

from sparkbeam.common.datagrams import sealed
from sparkbeam.observe.collection.batch_tracker import BatchTracker
from sparkbeam.observe.collection.listener import Listener, reachable_at
from sparkbeam.observe.figures.progress import StageProgress
from sparkbeam.plan.model import Exchange, Plan
from sparkbeam.wire.reports import ElementCounts, Reporter, Signal, SignalKind, TaskReport

STARTED, RUNNING, FINISHED, FAILED, READ = SignalKind


CHAIN = Plan((stage(0), stage(1, inputs=(0,)), stage(2, exchange=Exchange.BY_KEY, inputs=(1,))))


@pytest.fixture
def tracker() -> BatchTracker:
    return BatchTracker(CHAIN)


@pytest.fixture
def listener(tracker: BatchTracker) -> Iterator[Listener]:
    listener = Listener(tracker.record_signal)
    yield listener
    listener.close()


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


def test_closing_twice_is_fine_and_the_port_is_free_then(listener: Listener) -> None:
    listener.close()
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


# Tasks, elements and states.

Told = tuple[SignalKind, str, int, int, int]
"""A signal of a task: its stage, partition, elements, and those of the largest PCollection."""

SIGNALS: dict[str, list[Told]] = {
    "nothing has begun": [],
    "a stage runs": [(STARTED, "s0", 0, 0, 0)],
    "a stage may have more tasks than those that are done": [
        *((FINISHED, "s0", 0, 0, 0), (STARTED, "s1", 0, 0, 0)),
    ],
    "all before a shuffle is done when its reader starts": [(STARTED, "s2", 0, 0, 0)],
    "a retry that works leaves a stage running": [
        (FAILED, "s0", 0, 0, 0),
        (STARTED, "s0", 0, 0, 0),
    ],
    "what a task has read says nothing of its own stage": [(READ, "s2", 0, 0, 0)],
    "a task counts once however often it runs": [
        (kind, "s0", 0, 5, 5) for kind in (STARTED, FINISHED, STARTED, RUNNING, FINISHED)
    ],
    "elements are those of the attempt that is farthest": [
        *((RUNNING, "s0", 0, 50, 10), (FAILED, "s0", 0, 60, 10)),
        *((RUNNING, "s0", 0, 20, 30), (RUNNING, "s0", 1, 1, 1)),
    ],
    "the first attempt that succeeds settles them": [
        *((RUNNING, "s0", 0, 50, 50), (FINISHED, "s0", 0, 40, 40)),
        *((RUNNING, "s0", 0, 90, 90), (FINISHED, "s0", 0, 91, 91)),
    ],
    "every failed attempt counts": [(FAILED, "s0", 0, 0, 0)] * 2,
}
SIDE_INPUT = Plan((stage(0), stage(1), stage(2, inputs=(1,), side=(0,))))


def test_signals_tell_states_tasks_and_elements_until_the_end(golden: Golden) -> None:
    seen = {}
    for name, signals in SIGNALS.items():
        tracker = BatchTracker(CHAIN)
        for signal in signals:
            record(tracker, *signal)
        seen[name] = figures(tracker)
    record(tracker := BatchTracker(SIDE_INPUT), STARTED, "s2")
    seen["a side input is done when its reader starts"] = figures(tracker)
    record(tracker := BatchTracker(CHAIN), STARTED, "s0")
    tracker.end([report(10), report(20)])
    seen["committed reports make the figures exact, and every stage done"] = figures(tracker)
    record(tracker := BatchTracker(CHAIN), STARTED, "s0")
    record(tracker, FAILED, "s1")
    tracker.end(None)
    record(tracker, STARTED, "s2")
    seen["failure tells failed stages from those it stopped, and ends all"] = figures(tracker)
    golden("signals.txt", sections(seen))


def record(
    tracker: BatchTracker,
    kind: SignalKind,
    stage: str,
    partition: int = 0,
    new: int = 0,
    all: int = 0,
) -> None:
    packed = report(3).pack() if kind is READ else ""
    tracker.record_signal(Signal(kind, stage, partition, ElementCounts(new, all), report=packed))


def figures(tracker: BatchTracker) -> Iterator[str]:
    for one in tracker.snapshot().stages:
        tasks = f"{one.tasks_started} started, {one.tasks_done} done, {one.tasks_failed} failed"
        elements = f"{one.elements} elements, {one.busiest} in the largest PCollection"
        yield f"{one.name}: {one.state}, tasks {tasks}, {elements}"


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

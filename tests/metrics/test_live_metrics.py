"""Metrics while a pipeline runs: what is committed is true, what is attempted is all that ran."""

import random
from collections.abc import Iterable
from functools import partial
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics, monitoring_infos
from apache_beam.options.pipeline_options import PipelineOptions
from in_process import Crashes, Spark, StreamingRunner
from in_process_batch import BatchRunner

from sparkbeam.errors import PipelineFailed
from sparkbeam.observe.collection.live_metrics import LiveMetrics
from sparkbeam.wire.reports import Signal, SignalKind, TaskReport

STARTED, RUNNING, FINISHED, FAILED, READ = SignalKind


@pytest.fixture
def live() -> LiveMetrics:
    return LiveMetrics()


def report(count: int, *tasks: int) -> TaskReport:
    """What tasks of a stage have counted."""
    info = monitoring_infos.int64_user_counter("test", "seen", count, ptransform="Step")
    return TaskReport("s0", [info], tasks=tasks)


def signal(
    kind: SignalKind, count: int, partition: int = 0, attempt: str = "a", number: int = 0
) -> Signal:
    """An attempt at a task, and what it has counted so far."""
    packed = report(count).pack()
    return Signal(kind, "s0", partition, report=packed, attempt=attempt, number=number)


def read(count: int, *tasks: int, reader: int = 0, number: int = 0) -> Signal:
    """A task of the next stage has read the reports of tasks."""
    return Signal(READ, "s1", reader, report=report(count, *tasks).pack(), number=number)


def values(live: LiveMetrics) -> tuple[int, int]:
    """What is committed, and what is not."""
    return total(live.committed()), total(live.uncommitted())


def total(infos: Iterable[Any]) -> int:
    return sum(map(monitoring_infos.extract_counter_value, infos))


# Batch.

IN_BATCH: dict[str, tuple[list[Any], tuple[int, int]]] = {
    "what runs is attempted": (
        [signal(RUNNING, 5), signal(RUNNING, 8), signal(RUNNING, 2, partition=1)],
        (0, 10),
    ),
    "a signal without news changes nothing": (
        [signal(RUNNING, 5), Signal(RUNNING, "s0", 0, attempt="a")],
        (0, 5),
    ),
    "a task that has ended is not committed yet": ([signal(FINISHED, 5)], (0, 5)),
    "what the next stage reads is committed": (
        [signal(FINISHED, 5), signal(FINISHED, 6, partition=1), read(11, 0, 1)],
        (11, 0),
    ),
    "another attempt at reading counts nothing twice": (
        [read(5, 0), read(11, 0, 1), read(6, 1), read(11, 0, 1)],
        (11, 0),
    ),
    "readers add up": ([read(5, 0, reader=0), read(6, 1, reader=1)], (11, 0)),
    "what comes out of the plan counts once": (
        [read(5, 0), report(5, 0), report(6, 1), report(6, 1)],
        (11, 0),
    ),
    "a failed attempt stays attempted": (
        [signal(FAILED, 3, attempt="a"), signal(FINISHED, 5, attempt="b"), read(5, 0)],
        (5, 3),
    ),
    "an attempt that died stays attempted": (
        [signal(RUNNING, 3, attempt="a"), signal(FINISHED, 5, attempt="b"), report(5, 0)],
        (5, 3),
    ),
    "of two attempts that end one was for nothing": (
        [*map(partial(signal, FINISHED, 5, 0), "ab"), report(5, 0), signal(FINISHED, 5)],
        (5, 5),
    ),
    "a late signal of what is committed counts nothing": (
        [report(5, 0), signal(RUNNING, 4), signal(FINISHED, 5)],
        (5, 0),
    ),
}


@pytest.mark.parametrize(("told", "found"), IN_BATCH.values(), ids=IN_BATCH)
def test_in_batch(live: LiveMetrics, told: list[Any], found: tuple[int, int]) -> None:
    for one in told:
        if isinstance(one, Signal):
            live.record_signal(one)
        else:
            live.record_reports([one])
    assert values(live) == found


def test_a_restart_voids_what_was_committed(live: LiveMetrics) -> None:
    live.record_signal(read(5, 0))
    live.restart(1)
    live.record_signal(read(5, 0))
    assert values(live) == (0, 5)
    live.record_signal(read(5, 0, number=1))
    assert values(live) == (5, 5)


@pytest.mark.parametrize("packed", ["", "no report", "eJw=", "ü"])
def test_what_is_no_report_is_refused(live: LiveMetrics, packed: str) -> None:
    with pytest.raises(Exception, match=r"."):
        live.record_signal(Signal(READ, "s1", 0, report=packed))
    assert values(live) == (0, 0)


# Streaming.


def test_a_micro_batch_that_failed_stays_attempted(live: LiveMetrics) -> None:
    live.record_signal(signal(FINISHED, 5, attempt="a", number=1))
    live.record_signal(signal(FINISHED, 5, attempt="b", number=1))
    live.record_signal(signal(FAILED, 2, partition=1, attempt="c", number=1))
    live.take_micro_batch(1, [report(5)])
    live.record_signal(signal(FINISHED, 4, number=2))
    assert values(live) == (5, 11)
    live.take_micro_batch(2, [report(9)])
    assert values(live) == (9, 7)


def test_signals_of_a_micro_batch_that_is_over_count_nothing(live: LiveMetrics) -> None:
    live.take_micro_batch(3, [report(5)])
    live.record_signal(signal(FINISHED, 4, number=2))
    assert values(live) == (5, 0)


# Pipelines.


def counted(element: Any) -> Any:
    Metrics.counter("test", "seen").inc()
    return element


def counter(result: Any) -> tuple[int | None, int]:
    (found,) = result.metrics().query()["counters"]
    return found.committed, found.attempted


def test_a_batch_tells_of_a_stage_before_the_next_ends() -> None:
    seen: list[tuple[int, int]] = []
    note = LiveMetrics.record_signal

    def look(live: LiveMetrics, signal: Signal) -> None:
        note(live, signal)
        seen.append((users(live.committed()), users(live.uncommitted())))

    def users(infos: Iterable[Any]) -> int:
        return total(info for info in infos if info.labels.get("NAME") == "seen")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LiveMetrics, "record_signal", look)
        p = beam.Pipeline(BatchRunner())
        p | beam.Create(range(50)) | beam.Map(counted) | beam.Reshuffle() | beam.Map(str)
        result = p.run()
    assert counter(result) == (50, 50)
    assert (50, 0) in seen
    assert {committed for committed, _ in seen} == {0, 50}
    assert max(together := [sum(both) for both in seen]) == 50, together


def test_a_stream_tells_what_failed_micro_batches_have_counted() -> None:
    spark = Spark(Crashes((0, "sink")))
    p = beam.Pipeline(StreamingRunner(spark), options=PipelineOptions([]))
    p | beam.Create(range(50)) | beam.Map(counted) | beam.GroupBy(lambda x: x % 3)
    result: Any = p.run()
    with pytest.raises(PipelineFailed):
        result.wait_until_finish()
    assert counter(result) == (None, 50)


def test_a_stream_whose_tasks_run_twice_commits_once() -> None:
    p = beam.Pipeline(StreamingRunner(Spark(attempts=2)), options=PipelineOptions([]))
    p | beam.Create(range(50)) | beam.Map(counted) | beam.GroupBy(lambda x: x % 3)
    result: Any = p.run()
    result.wait_until_finish()
    assert counter(result) == (50, 100)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_added_up_in_parts_is_the_sum_of_all_attempts(live: LiveMetrics, seed: int) -> None:
    chance = random.Random(seed)
    latest: dict[tuple[int, str], int] = {}
    taken: set[int] = set()
    for _ in range(300):
        partition, attempt = chance.randrange(100), chance.choice("ab")
        if chance.random() < 0.1 and partition not in taken:
            taken.add(partition)
            live.record_reports([report(7, partition)])
            for found in ("b", "a"):
                if (partition, found) in latest:
                    del latest[partition, found]  # The last one that has not failed.
                    break
        elif partition not in taken and (attempt == "a" or (partition, "a") in latest):
            count = chance.randrange(10)
            live.record_signal(signal(RUNNING, count, partition, attempt))
            latest[partition, attempt] = count
        if chance.random() < 0.2:
            assert total(live.uncommitted()) == sum(latest.values())

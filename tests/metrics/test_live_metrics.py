"""Metrics while a pipeline runs: what is committed is true, what is attempted is all that ran."""

import random
from collections.abc import Iterable
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


def test_what_runs_is_attempted(live: LiveMetrics) -> None:
    live.record_signal(signal(RUNNING, 5))
    live.record_signal(signal(RUNNING, 8))
    live.record_signal(signal(RUNNING, 2, partition=1))
    assert values(live) == (0, 10)


def test_a_signal_without_news_changes_nothing(live: LiveMetrics) -> None:
    live.record_signal(signal(RUNNING, 5))
    live.record_signal(Signal(RUNNING, "s0", 0, attempt="a"))
    assert values(live) == (0, 5)


def test_a_task_that_has_ended_is_not_committed_yet(live: LiveMetrics) -> None:
    live.record_signal(signal(FINISHED, 5))
    assert values(live) == (0, 5)


def test_what_the_next_stage_reads_is_committed(live: LiveMetrics) -> None:
    live.record_signal(signal(FINISHED, 5))
    live.record_signal(signal(FINISHED, 6, partition=1))
    live.record_signal(read(11, 0, 1))
    assert values(live) == (11, 0)


def test_another_attempt_at_reading_counts_nothing_twice(live: LiveMetrics) -> None:
    live.record_signal(read(5, 0))
    live.record_signal(read(11, 0, 1))
    live.record_signal(read(6, 1))
    live.record_signal(read(11, 0, 1))
    assert values(live) == (11, 0)


def test_readers_add_up(live: LiveMetrics) -> None:
    live.record_signal(read(5, 0, reader=0))
    live.record_signal(read(6, 1, reader=1))
    assert values(live) == (11, 0)


def test_what_comes_out_of_the_plan_counts_once(live: LiveMetrics) -> None:
    live.record_signal(read(5, 0))
    live.record_reports([report(5, 0), report(6, 1)])
    live.record_reports([report(6, 1)])
    assert values(live) == (11, 0)


def test_a_failed_attempt_stays_attempted(live: LiveMetrics) -> None:
    live.record_signal(signal(FAILED, 3, attempt="a"))
    live.record_signal(signal(FINISHED, 5, attempt="b"))
    live.record_signal(read(5, 0))
    assert values(live) == (5, 3)


def test_an_attempt_that_died_stays_attempted(live: LiveMetrics) -> None:
    live.record_signal(signal(RUNNING, 3, attempt="a"))
    live.record_signal(signal(FINISHED, 5, attempt="b"))
    live.record_reports([report(5, 0)])
    assert values(live) == (5, 3)


def test_of_two_attempts_that_end_one_was_for_nothing(live: LiveMetrics) -> None:
    live.record_signal(signal(FINISHED, 5, attempt="a"))
    live.record_signal(signal(FINISHED, 5, attempt="b"))
    live.record_reports([report(5, 0)])
    live.record_signal(signal(FINISHED, 5, attempt="a"))
    assert values(live) == (5, 5)


def test_a_late_signal_of_what_is_committed_counts_nothing(live: LiveMetrics) -> None:
    live.record_reports([report(5, 0)])
    live.record_signal(signal(RUNNING, 4))
    live.record_signal(signal(FINISHED, 5))
    assert values(live) == (5, 0)


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

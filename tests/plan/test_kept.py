"""What one stage writes for two others, of which one waits for the other, is kept in files."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.pvalue import AsDict, AsIter, AsSingleton
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import (
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampedValue,
)
from in_process_batch import BatchRunner
from noting import noted, values
from plans import translated

from sparkbeam.errors import PipelineFailed
from sparkbeam.plan.model import Plan

Build = Callable[[beam.Pipeline], Any]


def numbers(p: beam.Pipeline, count: int = 200) -> Any:
    values = p | beam.Create(range(count)) | "Odd" >> beam.Map(lambda n: n * 7919 % 1009)
    return values | beam.Map(lambda n: TimestampedValue(n, n % 61))


def highest(of: Any) -> Any:
    return of | "Highest" >> beam.CombineGlobally(max).without_defaults()


def with_highest(of: Any, side: Any) -> Any:
    return of | "Ask" >> beam.Map(lambda n, most: (n, most), side)


def windowed(window_fn: Any) -> Build:
    def build(p: beam.Pipeline) -> Any:
        of = numbers(p) | beam.WindowInto(window_fn)
        return with_highest(of, AsSingleton(highest(of)))

    return build


def sessions(p: beam.Pipeline) -> Any:
    of = numbers(p) | beam.WindowInto(Sessions(2))
    everywhere = highest(of) | "Everywhere" >> beam.WindowInto(GlobalWindows())
    return of | beam.Map(lambda n, all_of: (n, sorted(all_of)), AsIter(everywhere))


def with_default(p: beam.Pipeline) -> Any:
    of = numbers(p)
    none = of | "None" >> beam.Filter(lambda n: n < 0)
    return with_highest(of, AsSingleton(highest(none), default_value=-1))


def as_dict(p: beam.Pipeline) -> Any:
    of = numbers(p)
    totals = of | beam.Map(lambda n: (n % 5, n)) | beam.CombinePerKey(sum)
    return of | beam.Map(lambda n, totals: (n, totals[n % 5]), AsDict(totals))


def one_after_the_other(p: beam.Pipeline) -> Any:
    of = numbers(p)
    first = highest(of)
    above = of | beam.Filter(lambda n, most: 2 * n > most, AsSingleton(first))
    count = above | beam.combiners.Count.Globally()
    return above | beam.Map(lambda n, count: (n, count), AsSingleton(count))


def three_readers(p: beam.Pipeline) -> Any:
    of = numbers(p)
    asked = with_highest(of, AsSingleton(highest(of)))
    groups = of | beam.Map(lambda n: (n % 3, n)) | beam.GroupByKey()
    return (asked, groups | beam.Map(lambda kv: (kv[0], len(list(kv[1]))))) | beam.Flatten()


def rows(p: beam.Pipeline) -> Any:
    """Elements without columns."""
    of = numbers(p) | beam.Map(lambda n: {"n": n, "odd": [n % 2] * (n % 3)})
    most = highest(of | beam.Map(lambda row: row["n"]))
    return of | beam.Map(lambda row, most: (sorted(row.items()), most), AsSingleton(most))


KEEPING = [
    *(windowed(SlidingWindows(10, 5)), sessions, with_default, as_dict, one_after_the_other, rows)
]


def plan_of(build: Build) -> Plan:
    return translated(build, local=True)[1]


@pytest.mark.parametrize("build", KEEPING)
def test_what_waits_for_a_side_input_of_its_own_input_reads_files(build: Build) -> None:
    plan = plan_of(build)
    assert plan.kept
    assert all(plan.reads(stage) <= 1 for stage in plan.stages)


@pytest.mark.part(3)
@pytest.mark.parametrize("build", [*KEEPING, three_readers])
def test_results_are_those_of_beam(build: Build) -> None:
    expected = noted(build, runner=FnApiRunner())
    for columns in ("auto", "off"):
        assert noted(build, f"--columns={columns}") == expected, columns


def test_nothing_is_kept_of_a_stream_or_where_workers_may_have_other_files() -> None:
    assert not translated(KEEPING[0])[1].kept
    assert not translated(KEEPING[0], local=True, streaming=True)[1].kept


def test_a_reader_that_does_not_wait_has_the_stage_persisted() -> None:
    plan = plan_of(three_readers)
    assert not plan.kept
    assert max(plan.reads(stage) for stage in plan.stages) > 1


def test_each_element_is_counted_once() -> None:
    seen, asked = Metrics.counter("kept", "seen"), Metrics.counter("kept", "asked")

    def count(counter: Any, n: int) -> int:
        counter.inc()
        return n

    p = beam.Pipeline(BatchRunner())
    of = numbers(p) | "See" >> beam.Map(lambda n: count(seen, n))
    most = AsSingleton(highest(of))
    _ = of | beam.Map(lambda n, most: count(asked, n + most), most)
    filtered = MetricsFilter().with_namespace("kept")
    counters = p.run().metrics().query(filtered)["counters"]
    committed = {counter.key.metric.name: counter.committed for counter in counters}
    assert committed == {"seen": 200, "asked": 200}


def test_a_random_function_gives_both_the_same_elements() -> None:
    def build(p: beam.Pipeline) -> Any:
        of = numbers(p) | "Random" >> beam.Map(lambda _: os.urandom(8))
        highest_of = of | beam.CombineGlobally(max).without_defaults()
        return of | beam.Filter(lambda some, most: some == most, AsSingleton(highest_of))

    assert plan_of(build).kept
    assert len(noted(build)) == 1


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary ones, of this test alone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def kept_in(folder: Path) -> list[Path]:
    return [*folder.glob("sparkbeam-kept-*")]


def test_the_files_are_gone_when_the_run_has_ended(temporary: Path) -> None:
    def build(p: beam.Pipeline) -> Any:
        of = numbers(p)
        return of | beam.Map(
            lambda n, most: len([*kept_in(temporary)[0].glob("*-*")]), AsSingleton(highest(of))
        )

    assert set(values(build)) == {2}
    assert not kept_in(temporary)


def test_the_files_of_a_run_that_fails_are_gone_too(temporary: Path) -> None:
    def build(p: beam.Pipeline) -> Any:
        of = numbers(p)
        return of | beam.Map(lambda n, most: n // (most - most), AsSingleton(highest(of)))

    with pytest.raises(PipelineFailed, match="ZeroDivisionError"):
        noted(build)
    assert not kept_in(temporary)


def test_they_are_where_spark_has_room_for_files(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = temporary / "room"
    room.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{temporary}/gone,{room}")

    def build(p: beam.Pipeline) -> Any:
        of = numbers(p)
        return of | beam.Map(lambda n, most: len(kept_in(room)), AsSingleton(highest(of)))

    assert set(values(build)) == {1}
    assert not kept_in(room)


def test_a_full_disk_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __init__(self, *_: Any) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("sparkbeam.worker.batch.spilling.pa.OSFile", Full)
    with pytest.raises(PipelineFailed, match=r"(?s)No space left on device.*Free space"):
        noted(rows)

"""Few rows are not divided among more tasks than the session has cores."""

import operator
import random
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from in_process import CORES
from in_process_batch import BatchRunner, Frame

from sparkbeam import Join
from sparkbeam.batch.exchange import impulses
from sparkbeam.spark import session as sessions

FEW = [(f"k{number % 5}", number) for number in range(50)]
MANY = [("k1", random.Random(number).randbytes(1_000)) for number in range(2_000)]


@pytest.fixture
def shuffles(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The arguments of each shuffle by key."""
    found: list[tuple[Any, ...]] = []
    usual = Frame.repartition

    def noted(frame: Frame, *parts: Any) -> Frame:
        found.append(parts)
        return usual(frame, *parts)

    monkeypatch.setattr(Frame, "repartition", noted)
    return found


def grouped(p: beam.Pipeline, pairs: list[Any]) -> Any:
    return p | beam.Create(pairs) | beam.GroupByKey()


def combined(p: beam.Pipeline, pairs: list[Any]) -> Any:
    return p | beam.Create(pairs) | beam.CombinePerKey(max)


def joined(p: beam.Pipeline, pairs: list[Any]) -> Any:
    sides = p | "one" >> beam.Create(pairs), p | "two" >> beam.Create(FEW)
    return sides | Join(on=operator.itemgetter(0))


def run(build: Callable[..., Any], pairs: list[Any], *flags: str, off: str = "") -> None:
    runner = BatchRunner()
    for name in sessions._COALESCES:
        runner._session.conf.set(name, str(name != off).lower())
    with beam.Pipeline(runner, options=PipelineOptions([*flags])) as p:
        _ = build(p, pairs) | beam.Keys() | beam.combiners.ToList() | beam.Map(max)


@pytest.mark.parametrize("build", [grouped, combined])
@pytest.mark.parametrize("off", sessions._COALESCES)
def test_in_a_session_that_does_not_coalesce_they_have_few_partitions(
    shuffles: list[tuple[Any, ...]], build: Any, off: str
) -> None:
    run(build, FEW, off=off)
    assert (CORES, "key") in shuffles


@pytest.mark.parametrize("build", [grouped, combined, joined])
def test_an_adaptive_session_chooses(shuffles: list[tuple[Any, ...]], build: Any) -> None:
    run(build, FEW)
    assert {*shuffles} == {("key",)}


def test_many_rows_have_the_partitions_of_the_session(shuffles: list[tuple[Any, ...]]) -> None:
    run(grouped, MANY, off=sessions._COALESCES[0])
    assert (CORES, "key") not in shuffles


def test_the_option_comes_first(shuffles: list[tuple[Any, ...]]) -> None:
    run(grouped, FEW, "--spark_parallelism=3", off=sessions._COALESCES[0])
    assert {*shuffles} == {(3, "key")}


def test_one_task_shuffles_nothing_but_the_output_of_a_join(shuffles: list[Any]) -> None:
    run(combined, FEW, "--spark_parallelism=1")
    assert not shuffles
    run(joined, FEW, "--spark_parallelism=1")
    assert (1, "key") in shuffles


@pytest.mark.parametrize(("pairs", "tasks"), [(FEW, CORES), (MANY, 4 * CORES)])
def test_a_side_of_a_join_has_tasks_for_its_size(
    monkeypatch: pytest.MonkeyPatch, pairs: list[Any], tasks: int
) -> None:
    counts: list[int] = []

    def noted(session: Any, count: int = 1) -> Any:
        counts.append(count)
        return impulses(session, count)

    monkeypatch.setattr("sparkbeam.batch.execution.impulses", noted)
    run(joined, pairs)
    assert max(counts) == tasks

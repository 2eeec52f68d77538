"""Few rows are not divided among more tasks than the session has cores, or run in one stage."""

import operator
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam import pvalue
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from in_process import CORES
from in_process_batch import BatchRunner, Frame

from sparkbeam import Join, SparkRunner
from sparkbeam.batch.exchange import impulses
from sparkbeam.plan.model import Exchange
from sparkbeam.spark import session as sessions
from sparkbeam.wire.rows import METRICS_TAG, SCHEMA
from sparkbeam.worker.batch.small_pipeline import LeftRows, SmallPipeline, numbers

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


def of_all_kinds(p: beam.Pipeline) -> beam.PCollection[Any]:
    """Groups of groups, side inputs, a PCollection with several readers, and a counter."""
    numbers = p | "Numbers" >> beam.Create(range(40)) | beam.Map(lambda x: (x % 7, x))
    groups = numbers | "First" >> beam.GroupByKey() | beam.MapTuple(lambda k, v: (k % 2, sum(v)))
    totals = numbers | "Sums" >> beam.CombinePerKey(sum)
    factor = p | "Factor" >> beam.Create([3]) | beam.Map(lambda x: x + 1)

    def scaled(pair: tuple[int, Any], factor: int, by_key: dict[int, int], all: list[Any]) -> Any:
        Metrics.counter("few", "scaled").inc()
        return pair[0], pair[1] * factor + by_key[pair[0]] + len(all)

    sides = pvalue.AsSingleton(factor), pvalue.AsDict(totals), pvalue.AsList(numbers)
    scaled_groups = groups | "Scale" >> beam.Map(scaled, *sides)
    both = (scaled_groups, totals) | beam.Flatten() | "Second" >> beam.GroupByKey()
    return both | beam.MapTuple(lambda key, values: (key, sorted(values)))


def counted(runner: SparkRunner, *flags: str) -> Any:
    """Run the pipeline, and compare what it finds and counts."""
    totals = {key: sum(range(key, 40, 7)) for key in range(7)}
    scaled = [(key % 2, total * 4 + totals[key % 2] + 40) for key, total in totals.items()]
    pairs = [*scaled, *totals.items()]
    expected = [(key, sorted(n for k, n in pairs if k == key)) for key in range(7)]
    p = beam.Pipeline(runner, options=PipelineOptions([*flags]))
    assert_that(of_all_kinds(p), equal_to(expected))
    result: Any = p.run()
    result.wait_until_finish()
    (counter,) = result.metrics().query(MetricsFilter().with_name("scaled"))["counters"]
    assert counter.committed == len(scaled)
    return result


@pytest.mark.parametrize("small", [0, 1_000, 4_000, 8_000, 1 << 20, None])
def test_the_stages_that_a_task_leaves_find_the_same(small: int | None) -> None:
    counted(BatchRunner(small=small))


@pytest.mark.parametrize(
    ("flags", "least", "most"), [([], 1, 1), (["--spark_parallelism=2"], 5, 99)]
)
def test_on_spark_few_values_need_one_stage_if_nobody_asks_for_tasks(
    spark: Any, flags: list[str], least: int, most: int
) -> None:
    stages = counted(SparkRunner(spark), *flags).summary().stages
    assert least <= len({one.id for stage in stages for one in stage.spark}) <= most


def test_a_second_attempt_goes_on_where_the_first_has_failed(tmp_path: Path) -> None:
    attempts: list[list[int]] = []
    behind = Mock(exchange=Exchange.BY_KEY, inputs=(7,), side_inputs=())

    @dataclass(frozen=True)
    class Task:
        stage: Any = behind
        tasks: int = 2
        side_inputs: Any = None

    class Root(Task):
        def __call__(self, batches: Any) -> Any:
            (number,) = batches
            yield rows([7, METRICS_TAG], number.column(0)[0].as_py())

    class Fails(Task):
        def __call__(self, batches: Any) -> Any:
            attempts.append([order for batch in batches for order in batch["ord"].to_pylist()])
            if len(attempts) == 1:
                raise ValueError("the first time")
            yield rows([METRICS_TAG], 2)

    def rows(tags: list[int], order: int) -> pa.RecordBatch:
        some = len(tags)
        return pa.record_batch([tags, [b""] * some, [order] * some, [b"row"] * some], schema=SCHEMA)

    small = SmallPipeline((Root(),), (Fails(),), str(tmp_path))  # type: ignore[arg-type]
    Path(tmp_path, "left-1.unfinished").touch()
    assert not list(small(numbers([1])))
    with pytest.raises(ValueError, match="the first time"):
        list(small(numbers([0])))
    assert not list(small(numbers([1])))
    assert sum(batch.num_rows for batch in small(numbers([0]))) == 3
    assert attempts == [[0, 1], [0, 1]]
    assert not list(small(numbers([1])))
    assert small.left() == (1, LeftRows(()))


def test_a_task_that_finds_more_leaves_the_rest_of_a_stage(tmp_path: Path) -> None:
    def of(tag: int, count: int) -> Iterator[pa.RecordBatch]:
        for _ in range(count):
            yield pa.record_batch([[tag], [b""], [0], [bytes(100_000)]], schema=SCHEMA)

    @dataclass(frozen=True)
    class Task:
        tag: int
        count: int
        tasks: int = 1
        stage: Any = Mock(exchange=Exchange.FORWARD, inputs=(0,), side_inputs=())  # noqa: RUF009
        side_inputs: Any = None

        def __call__(self, _: Any) -> Iterator[pa.RecordBatch]:
            return of(self.tag, self.count)

    small: Any = SmallPipeline((Task(0, 1),), (Task(1, 1), Task(2, 30), Task(3, 1)), str(tmp_path))  # type: ignore[arg-type]
    assert not list(small(numbers([0])))
    count, left = small.left()
    assert count == 2
    rows = pa.Table.from_batches(left(numbers([0])))
    assert rows["tag"].to_pylist() == [0, 1] + [2] * 30

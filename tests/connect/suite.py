"""Tests over a Spark Connect session; ``test_connect.py`` runs them in a process of their own.

A representative third of Beam's ``FnApiRunnerTest``: every third test in the order of their
names. Those that follow are about what Connect does in its own way.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from apache_beam.runners.portability.fn_api_runner.fn_runner_test import FnApiRunnerTest
from apache_beam.runners.runner import PipelineState
from pyspark.sql import SparkSession

from sparkbeam import PipelineFailed, SparkBeamOptions, SparkRunner
from sparkbeam import session as sessions

ALL = sorted(name for name in dir(FnApiRunnerTest) if name.startswith("test"))
CHOSEN = ALL[::3]
WAIT_SECONDS = 60


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    builder: Any = SparkSession.builder.remote("local[2]")
    session = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    assert sessions.is_connect(SparkSession.getActiveSession())
    yield session
    session.stop()


@pytest.mark.usefixtures("spark")
class TestFnApiThird(FnApiRunnerTest):
    # Which hides the others from the loader.
    locals().update(dict.fromkeys(set(ALL) - set(CHOSEN)))

    def create_pipeline(self, is_drain: bool = False) -> beam.Pipeline:
        return beam.Pipeline(runner=SparkRunner(drain=is_drain))


def pipeline(spark: Any) -> beam.Pipeline:
    return beam.Pipeline(SparkRunner(spark), SparkBeamOptions([]))


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_metrics_are_committed(spark: Any) -> None:
    class Count(beam.DoFn):
        def process(self, element: int) -> Iterator[tuple[int, int]]:
            Metrics.counter("connect", "elements").inc()
            yield element % 3, element

    p = pipeline(spark)
    _ = p | beam.Create(range(100)) | beam.ParDo(Count()) | beam.GroupByKey()
    result = p.run()
    result.wait_until_finish()
    (counter,) = result.metrics().query()["counters"]
    assert (counter.committed, counter.attempted) == (100, 100)


def test_a_large_side_input_reaches_the_workers(spark: Any, tmp_path: Path) -> None:
    found = tmp_path / "found"
    p = pipeline(spark)
    large = p | "Numbers" >> beam.Create(range(3000)) | beam.Map(lambda n: (n, "." * 4000))
    _ = (
        p
        | beam.Create([7])
        | beam.Map(lambda n, side: found.write_text(str(len(side[n]))), beam.pvalue.AsDict(large))
    )
    p.run().wait_until_finish()
    assert found.read_text() == "4000"


def test_a_dofn_that_raises_is_named_with_the_users_own_frames(spark: Any) -> None:
    def parse(text: str) -> int:
        return int(text)

    p = pipeline(spark)
    _ = p | beam.Create(["1", "x"]) | "Parse amounts" >> beam.Map(parse)
    result = p.run()
    with pytest.raises(PipelineFailed) as caught:
        result.wait_until_finish()
    assert result.state == PipelineState.FAILED
    assert caught.value.label == "Parse amounts"
    assert "Step 'Parse amounts' failed: ValueError: invalid literal" in str(caught.value)
    assert "return int(text)" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)
    assert len(str(caught.value).splitlines()) < 25


def test_cancel_stops_the_work_and_leaves_the_session_usable(spark: Any, tmp_path: Path) -> None:
    signs = tmp_path / "signs"

    class Slow(beam.DoFn):
        def process(self, element: int) -> Iterator[int]:
            with signs.open("a") as file:
                file.write(".")
            time.sleep(0.05)
            yield element

    def is_still() -> bool:
        before = signs.stat().st_size
        time.sleep(0.5)
        return signs.stat().st_size == before

    p = pipeline(spark)
    _ = p | beam.Create(range(50_000)) | beam.ParDo(Slow()) | beam.combiners.Count.Globally()
    result = p.run()
    until(signs.exists)
    assert result.cancel() == PipelineState.CANCELLED
    assert result.wait_until_finish() == PipelineState.CANCELLED
    until(is_still)
    assert spark.range(3).count() == 3

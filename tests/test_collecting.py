"""What is collected from a Spark that has lost a thread."""

import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from waiting import until

from sparkbeam import PipelineFailed, SparkBeamOptions, SparkRunner
from sparkbeam.spark import collect
from sparkbeam.spark.collect import collected


def kill_serving_thread(spark: Any) -> None:
    """Ends the thread that serves rows as an error of the JVM does: Spark does not catch this."""
    found: list[Any] = []

    def look() -> bool:
        threads = spark._jvm.java.lang.Thread.getAllStackTraces().keySet()
        found.extend(thread for thread in threads if thread.getName() == "serve-Arrow")
        return bool(found)

    until(look)
    found[0].interrupt()


@pytest.mark.part(2)
@pytest.mark.parametrize("streaming", [False, True])
def test_a_pipeline_whose_results_nobody_serves_fails(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streaming: bool
) -> None:
    monkeypatch.setattr(collect, "_LOOK_SECONDS", 0.2)
    started, go_on = tmp_path / "started", tmp_path / "go on"

    def work(element: Any) -> None:
        started.touch()
        while not go_on.exists():
            time.sleep(0.05)

    p = beam.Pipeline(SparkRunner(spark), SparkBeamOptions(["--streaming"] if streaming else []))
    _ = p | beam.Create([1]) | beam.Map(work)
    result = p.run()
    try:
        until(started.exists)
        kill_serving_thread(spark)
        with pytest.raises(PipelineFailed, match="that serves the results has died"):
            result.wait_until_finish()
    finally:
        go_on.touch()
    assert spark.range(3).count() == 3, "the session is as it was"


class _NobodyAsks:
    def __init__(self, session: Any) -> None:
        """There is nothing to ask."""

    def enter(self) -> None:
        """The thread is on its way."""


def test_spark_is_asked_nothing_where_all_is_well(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "_Place", _NobodyAsks)
    assert collected(spark.range(3)).num_rows == 3
    with pytest.raises(Exception, match="NOT_THERE"):
        collected(spark.sql("SELECT raise_error('NOT_THERE')"))

"""Tests over a Spark Connect session; ``test_connect.py`` runs them in a process of their own.

A part of Beam's ``FnApiRunnerTest``; what Connect does in its own way; and streaming, with what
becomes of files there.
"""

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apache_beam as beam
import program_of_sources
import pytest
import test_drain
import test_model
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.metrics import Metrics
from apache_beam.runners.portability.fn_api_runner import fn_runner_test
from apache_beam.runners.runner import PipelineState
from apache_beam.transforms.window import FixedWindows
from chosen_tests import ALL, chosen
from listening import Listening
from pyspark.sql import SparkSession
from test_cancel import is_still, slow
from test_drain import counted, counter
from waiting import until
from whole import is_whole

from sparkbeam import (
    ConfigurationError,
    PipelineFailed,
    SparkBeamOptions,
    SparkRunner,
    as_dataframe,
)
from sparkbeam.io import ForeachBatch, FromDataFrame
from sparkbeam.spark import session as sessions
from sparkbeam.upstream.spark import is_connect

# Workers cannot import them.
cloudpickle.register_pickle_by_value(test_drain)
cloudpickle.register_pickle_by_value(test_model)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    arguments = ["--spark_connect=local[2]", "--spark_conf=spark.sql.shuffle.partitions=4"]
    arguments += ["--spark_conf=spark.ui.enabled=true", "--spark_conf=spark.ui.port=0"]
    # Another program on this machine has a server of Spark Connect too.
    with socket.socket() as other:
        with suppress(OSError):
            other.bind(("127.0.0.1", 15002))
            other.listen()
        session = sessions.obtain(SparkBeamOptions(arguments))
        assert is_connect(SparkSession.getActiveSession())
        yield session
        session.stop()


@pytest.mark.usefixtures("spark")
class TestFnApiPart(fn_runner_test.FnApiRunnerTest):
    # Which hides the others from the loader.
    locals().update(dict.fromkeys(set(ALL) - set(chosen())))

    def create_pipeline(self, is_drain: bool = False) -> beam.Pipeline:
        return beam.Pipeline(runner=SparkRunner(drain=is_drain))


def pipeline(spark: Any) -> beam.Pipeline:
    return beam.Pipeline(SparkRunner(spark), SparkBeamOptions([]))


def test_a_dataframe_goes_through_beam_and_back(spark: Any) -> None:
    p = pipeline(spark)
    side = p | beam.Create([100])
    summed = (
        p
        | FromDataFrame(spark.range(10))
        | beam.Map(lambda row, add: (row.id % 2, row.id + add), beam.pvalue.AsSingleton(side))
        | beam.CombinePerKey(sum)
        | beam.Map(lambda kv: beam.Row(parity=int(kv[0]), total=int(kv[1])))
    )
    frame = as_dataframe(summed)
    names = spark.createDataFrame([(0, "even"), (1, "odd")], "parity int, name string")
    for _ in range(2):
        joined = frame.join(names, "parity").orderBy("parity").select("name", "total")
        assert [*map(tuple, joined.collect())] == [("even", 520), ("odd", 525)]
    zero = p | "Zero" >> beam.Create([0])
    failing = as_dataframe(zero | "Divide" >> beam.Map(lambda n: 1 // n).with_output_types(int))
    with pytest.raises(Exception, match="Step 'Divide' failed: ZeroDivisionError"):
        failing.collect()


def test_queries_and_yaml_run(spark: Any) -> None:
    program_of_sources.run_queries(pipeline(spark))


def test_files_and_rows_of_a_statement_are_written_and_read(spark: Any, tmp_path: Path) -> None:
    program_of_sources.write_files_and_rows(pipeline(spark), tmp_path)
    program_of_sources.read_files(pipeline(spark), tmp_path)


def test_all_sockets_are_on_loopback(spark: Any) -> None:
    with Listening() as sockets, pipeline(spark) as p:
        pairs = p | beam.Create(range(100)) | beam.Map(lambda number: (number % 3, number))
        _ = pairs | beam.GroupByKey() | beam.Map(lambda group: len(list(group[1])))
    assert sockets.elsewhere() == []


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
    p = pipeline(spark)
    _ = p | beam.Create(range(50_000)) | slow(signs) | beam.combiners.Count.Globally()
    result = p.run()
    until(signs.exists)
    assert result.cancel() == PipelineState.CANCELLED
    assert result.wait_until_finish() == PipelineState.CANCELLED
    until(lambda: is_still(signs))
    assert spark.range(3).count() == 3


@pytest.mark.skipif(not is_whole(), reason="half a minute, and runs on a classic session too")
def test_timers_in_processing_time_follow_the_clock(spark: Any) -> None:
    test_model.test_timers_in_processing_time_follow_the_clock(SparkRunner(spark))


def test_a_drained_query_goes_on_where_an_earlier_one_was_cancelled(
    spark: Any, tmp_path: Path
) -> None:
    options = SparkBeamOptions([f"--checkpoint_location={tmp_path}"])
    p = beam.Pipeline(SparkRunner(spark), options)
    counted(p | beam.Create([test_drain.ENDLESS]) | test_drain.read(), FixedWindows(1000))
    result: Any = p.run()
    until(lambda: result.wait_until_finish(1) and counter(result, "read") > 0)
    result.cancel()
    earlier = counter(result, "read")

    result = p.run()
    until(lambda: counter(result, "read") > earlier)
    result.drain()
    assert result.wait_until_finish() == PipelineState.DRAINED
    assert counter(result, "written") == counter(result, "read") > earlier


def test_a_changed_pipeline_is_refused(spark: Any, tmp_path: Path) -> None:
    options = SparkBeamOptions([f"--checkpoint_location={tmp_path}", "--streaming"])
    for key in (1, "a"):
        p = beam.Pipeline(SparkRunner(spark), options)
        groups = p | beam.Create([1]) | beam.WithKeys(key) | beam.GroupByKey()
        _ = groups | beam.Values()
        result = p.run()
        if key == 1:
            result.wait_until_finish()
    with pytest.raises(ConfigurationError, match="holds the state of another pipeline"):
        result.wait_until_finish()


def test_sinks_get_each_micro_batch_on_the_server(spark: Any, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    (source / "numbers.csv").write_text("3\n4\n")

    def keep(frame: Any, batch_id: int) -> None:
        rows = sorted(row.number for row in frame.collect())
        (out / f"{batch_id}").write_text(repr(rows))

    arguments = ["--streaming", "--trigger=available-now"]
    with beam.Pipeline(SparkRunner(spark), SparkBeamOptions(arguments)) as p:
        made = p | beam.Create([1, 2]) | beam.Map(lambda n: beam.Row(number=n))
        frame = spark.readStream.schema("number long").csv(str(source)).dropDuplicates()
        read = (
            p | FromDataFrame(frame) | "Rows" >> beam.Map(lambda row: beam.Row(number=row.number))
        )
        _ = (made, read) | beam.Flatten() | ForeachBatch(keep, "number long")
    assert [file.read_text() for file in out.iterdir()] == ["[1, 2, 3, 4]"]

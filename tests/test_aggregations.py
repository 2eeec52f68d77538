"""What an explanation says of an aggregation, before a run and after it."""

import re
from collections.abc import Callable
from typing import Any
from unittest import mock

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    DefaultTrigger,
    Repeatedly,
)
from apache_beam.transforms.window import (
    FixedWindows,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    TimestampedValue,
)
from in_process import StreamingRunner
from in_process_batch import BatchRunner

from sparkbeam import ConfigurationError, SparkRunner
from sparkbeam.explain.aggregations import aggregations
from sparkbeam.options import spark_options
from sparkbeam.plan.grouping import SessionAggregator
from sparkbeam.run.result import SparkPipelineResult
from sparkbeam.worker.steps.step_factory import StepFactory

Build = Callable[[Any], Any]
TRIGGERS = {
    "default": DefaultTrigger(),
    "count": Repeatedly(AfterCount(2)),
    "clock": Repeatedly(AfterProcessingTime(5)),
    "early": AfterWatermark(early=AfterCount(1), late=AfterCount(3)),
}


def count(pairs: Any) -> Any:
    windowed = pairs | "Windows" >> beam.WindowInto(FixedWindows(5))
    return windowed | "Count" >> beam.combiners.Count.PerKey()


def sessions(pairs: Any) -> Any:
    return pairs | beam.WindowInto(Sessions(5)) | "Sum" >> beam.CombinePerKey(sum)


def triggered(pairs: Any) -> Any:
    by_count = beam.WindowInto(
        FixedWindows(5),
        trigger=Repeatedly(AfterCount(2)),
        accumulation_mode=AccumulationMode.DISCARDING,
    )
    return pairs | by_count | "Sum" >> beam.CombinePerKey(sum)


def grouped(pairs: Any) -> Any:
    return pairs | beam.GroupByKey() | "Sizes" >> beam.MapTuple(lambda key, all: len(list(all)))


def pipeline(build: Build, runner: Any, *options: str) -> beam.Pipeline:
    made = beam.Pipeline(runner, PipelineOptions([*options, "--allow_unsafe_triggers"]))
    build(made | beam.Create([("ab"[n % 2], n) for n in range(100)]))
    return made


def told(build: Build, *options: str) -> list[str]:
    """The lines about a pipeline that does not run."""
    made = pipeline(build, SparkRunner(), *options)
    plan = SparkRunner()._plan(made, spark_options.checked(made.options))
    return aggregations(plan).splitlines()


COUNT_IN_BATCH = """\
'Count' (s1): by key and window, many at once, because FixedWindows fire once, and count has a
vectorized form
  partial   MapInArrow s0   elements to accumulators, in a table in memory
  exchange  Exchange, Sort  by key, sorted by key and order
  merge     MapInArrow s1   accumulators of all tasks
  extract                   outputs of accumulators
"""

COUNT_IN_STREAMING = """\
'Count' (s1): by key and window, over accumulators in state, because FixedWindows fire at their end
  partial   mapInArrow of layer 0          elements to accumulators, in a table in memory
  exchange  Exchange, Sort                 to the shard of the key
  merge     transformWithState of layer 1  accumulators of all tasks
  restore                                  the records of the current keys
  merge                                    stored and new accumulators
  save                                     the records, and timers of pending firings
  extract                                  outputs of accumulators
"""


class TestBefore:
    def test_a_count_in_batch(self) -> None:
        assert told(count) == COUNT_IN_BATCH.splitlines()

    def test_a_count_in_streaming(self) -> None:
        assert told(count, "--streaming") == COUNT_IN_STREAMING.splitlines()

    def test_sessions_name_their_aggregator(self) -> None:
        found = told(sessions)
        assert "columnar aggregator of sessions, because sum has a vectorized form" in found[1]
        assert found[2].endswith("elements to sessions, by the columnar aggregator")

    def test_a_trigger_is_the_reason_for_beams_driver(self) -> None:
        text = " ".join(" ".join(told(triggered, "--streaming")).split())
        assert text.startswith("'Sum' (s1): by Beam's trigger driver, over accumulators in state")
        assert "because the trigger is Repeatedly(AfterCount(2))" in text
        assert "stored and new accumulators, as Beam's trigger driver decides" in text

    @pytest.mark.part(5)
    @pytest.mark.parametrize("options", [[], ["--streaming"]])
    @pytest.mark.parametrize("is_latest", [False, True])
    @pytest.mark.parametrize("trigger", TRIGGERS)
    @pytest.mark.parametrize("window_fn", [FixedWindows(5), Sessions(5)])
    def test_the_first_half_of_a_combine_is_what_runs(
        self, window_fn: Any, trigger: str, is_latest: bool, options: list[str]
    ) -> None:
        def build(pairs: Any) -> Any:
            at = "LATEST" if is_latest else "EOW"
            windows = beam.WindowInto(
                window_fn,
                trigger=TRIGGERS[trigger],
                accumulation_mode=AccumulationMode.DISCARDING,
                timestamp_combiner=getattr(TimestampCombiner, f"OUTPUT_AT_{at}"),
            )
            return pairs | windows | "Sum" >> beam.CombinePerKey(sum)

        said = " ".join(" ".join(told(build, *options)).split())
        ran = first_half(build, *options)
        assert ("in a table in memory" in said) == (ran == {None})
        assert ("by the columnar aggregator" in said) == (ran == {SessionAggregator.COLUMNAR})
        assert len(ran) == 1
        assert said.startswith("'Sum' (s1): ")
        is_counted = bool(options) and trigger != "default"
        assert ("in a table in memory, each with its element count" in said) == is_counted
        is_fired = not options and trigger != "default"
        assert ("panes of each window by its count" in said) == is_fired
        assert (f"on which {TRIGGERS[trigger]} fires" in said) == is_fired

    def test_windows_that_merge_in_batch_ask_no_trigger_driver(self) -> None:
        text = " ".join(" ".join(told(sessions, "--session_aggregator=canonical")).split())
        assert text.startswith("'Sum' (s1): by the WindowFn, key by key")
        assert "accumulators of all tasks, as the WindowFn merges windows" in text
        assert "trigger driver" not in text

    def test_beams_driver_takes_in_what_comes_one_by_one(self) -> None:
        found = [line.split()[0] for line in told(triggered, "--streaming") if line[:2] == "  "]
        assert [one for one in found if one.isalpha()].count("merge") == 1

    def test_a_grouping_has_nothing_to_extract(self) -> None:
        found = told(grouped)
        assert found[0].startswith("Before 'Sizes' (s1): by key")
        assert [line.split()[0] for line in found[1:]] == ["partial", "exchange", "merge"]
        assert "values gathered by key" in found[1]

    def test_each_aggregation_is_told(self) -> None:
        def chain(pairs: Any) -> Any:
            keyed = count(pairs) | "Sizes" >> beam.Map(lambda pair: (pair[1], pair[0]))
            return keyed | "Names" >> beam.GroupByKey() | "Last" >> beam.Map(lambda group: group)

        heads = [line for line in told(chain) if ": " in line and not line.startswith(" ")]
        assert [head.partition(":")[0] for head in heads] == ["'Count' (s1)", "Before 'Last' (s2)"]

    def test_labels_may_be_any_text(self) -> None:
        found = told(lambda pairs: pairs | "Su\x1b[31mm\n" >> beam.CombinePerKey(sum))
        assert all(line.isprintable() for line in found)


def first_half(build: Build, *options: str) -> set[Any]:
    """The aggregators of sessions that make accumulators of elements when the pipeline runs."""
    made: set[Any] = set()
    create = StepFactory.create_operation

    def noted(factory: StepFactory, id: str, consumers: Any) -> Any:
        operation: Any = create(factory, id, consumers)
        if factory.descriptor.transforms[id].unique_name == "Sum/Precombine":
            made.add(operation.plan.aggregator)
        return operation

    runner = StreamingRunner() if options else BatchRunner()
    with mock.patch.object(StepFactory, "create_operation", noted):
        pipeline(build, runner, *options).run().wait_until_finish()
    return made


class TestAfter:
    @pytest.mark.parametrize("options", [[], ["--streaming"]], ids=["batch", "streaming"])
    def test_fewer_accumulators_than_elements_are_sent_whatever_fires_and_which_timestamp(
        self, options: list[str]
    ) -> None:
        windowed = [
            beam.WindowInto(
                window_fn,
                trigger=trigger,
                accumulation_mode=AccumulationMode.DISCARDING,
                timestamp_combiner=getattr(TimestampCombiner, f"OUTPUT_AT_{at}"),
            )
            for window_fn in (FixedWindows(5), SlidingWindows(10, 5), Sessions(5))
            for trigger in TRIGGERS.values()
            for at in ("EOW", "EARLIEST", "LATEST")
        ]

        def build(pairs: Any) -> None:
            stamped = pairs | beam.Map(lambda pair: TimestampedValue(pair, pair[1] % 7))
            for number, windows in enumerate(windowed):
                windows.label = f"Windows {number}"
                _ = stamped | windows | f"Sum {number}" >> beam.CombinePerKey(sum)

        result: Any = pipeline(build, StreamingRunner() if options else BatchRunner(), *options)
        result = result.run()
        result.wait_until_finish()
        text = " ".join(result.explain().aggregations.split())
        figures = re.findall(r" partial [^:]*: ([\d,]+) in, ([\d,]+) out", text)
        assert len(figures) == len(windowed)
        for taken, made in figures:
            assert int(taken) == 100
            assert int(made) < 50

    @pytest.mark.parametrize("runner", [BatchRunner, StreamingRunner])
    def test_every_half_of_a_combine_has_what_went_in_and_out(self, runner: Any) -> None:
        result: Any = pipeline(count, runner()).run()
        result.wait_until_finish()
        lines = result.explain().aggregations.splitlines()
        figures = {line.split()[0]: line.rpartition(": ")[2] for line in lines[1:] if ": " in line}
        assert figures["partial"].startswith("100 in, ")
        assert figures["extract"].startswith("2 in, 2 out")
        assert int(figures["merge"].split()[0]) >= 2

    def test_spark_tells_its_final_plan_and_the_bytes(self, spark: Any) -> None:
        result: Any = pipeline(count, SparkRunner(spark), "--spark_parallelism=2").run()
        result.wait_until_finish()
        explanation = result.explain()
        assert "Final Plan" in explanation.spark
        assert "MapInArrow" in explanation.spark
        (exchange,) = (one for one in explanation.aggregations.splitlines() if "  exchange" in one)
        assert exchange.find(" partitions, read as ") > 0
        assert "Count" in explanation.pipeline

    def test_spark_tells_the_plan_of_the_last_micro_batch(self, spark: Any) -> None:
        result: Any = pipeline(count, SparkRunner(spark), "--streaming").run()
        result.wait_until_finish()
        explanation = result.explain()
        assert explanation.spark.startswith("One Structured Streaming query")
        assert explanation.spark.count("== Physical Plan ==") == 1
        assert "TransformWithState" in explanation.spark
        assert "2 in, 2 out" in explanation.aggregations

    def test_nothing_has_run(self) -> None:
        result = SparkPipelineResult(cancel_work=lambda: None)
        result._finish(None)
        with pytest.raises(ConfigurationError, match="There is no run to explain"):
            result.explain()

    def test_a_pipeline_that_was_only_explained_has_that(self, capsys: Any) -> None:
        result: Any = pipeline(count, SparkRunner(), "--streaming", "--spark_explain").run()
        assert str(result.explain()) in capsys.readouterr().out


def test_on_spark_half_of_the_values_on_one_key_are_told(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkbeam.explain.executed_plans.LEAST", 5000)
    made = beam.Pipeline(SparkRunner(spark), PipelineOptions(["--spark_parallelism=8"]))
    pairs = made | beam.Create([(n % 600 * (n % 2), f"{n * n * n:011d}") for n in range(6000)])
    _ = pairs | beam.GroupByKey() | "Size" >> beam.MapTuple(lambda key, group: len(list(group)))
    _ = pairs | "Most" >> beam.CombinePerKey(max) | beam.Map(str)
    result: Any = made.run()
    result.wait_until_finish()
    lines = map(str.strip, result.explain().stages.splitlines())
    (hot,) = (line for line in lines if line.startswith("hot "))
    assert "times the median" in hot


def test_on_spark_partitions_of_each_shuffle_are_told(spark: Any) -> None:
    made = beam.Pipeline(SparkRunner(spark), PipelineOptions(["--spark_parallelism=5"]))
    pairs = made | beam.Create([("ab"[n % 2], n) for n in range(100)]) | "Same" >> beam.Filter(bool)
    _ = pairs | "Sum" >> beam.CombinePerKey(sum) | "Show" >> beam.Map(str)
    _ = pairs | beam.GroupByKey() | "Size" >> beam.MapTuple(lambda key, group: len(list(group)))
    _ = pairs | beam.Reshuffle() | "Spread" >> beam.Map(str)
    result: Any = made.run()
    result.wait_until_finish()
    told = result.explain()
    lines = [line.strip() for line in told.stages.splitlines() if " parts " in line]
    assert len(lines) == 3
    assert all(" partitions, read as " in line and " written" in line for line in lines)
    assert "parts 5 partitions, read as" in told.stages
    assert " ".join(told.aggregations.split()).count("order: 5 partitions, read as") == 2

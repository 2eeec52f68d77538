"""What a run has done, step by step."""

import json
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import monitoring_infos
from apache_beam.options.pipeline_options import PipelineOptions
from golden_files import Golden
from in_process import StreamingRunner
from in_process_batch import BatchRunner

from sparkbeam import RunSummary, SparkRunner, SparkStage, StageSummary, StepSummary
from sparkbeam.observe.collection import spark_stages, step_figures
from sparkbeam.observe.collection.spark_stages import SparkStages
from sparkbeam.wire.reports import NAMESPACE, REFUSED_BLOCKS, Signal, SignalKind


def run(runner: Any) -> Any:
    p = beam.Pipeline(runner(), options=PipelineOptions([]))
    numbers = p | beam.Create(range(50))
    tripled = numbers | "Triple" >> beam.FlatMap(lambda x: [x, x, x])
    sums = tripled | "Key" >> beam.WithKeys(lambda x: x % 5) | "Sum" >> beam.CombinePerKey(sum)
    biggest = sums | "Values" >> beam.Values() | beam.CombineGlobally(max)
    sums | "Below" >> beam.Filter(lambda x, most: x[1] < most, beam.pvalue.AsSingleton(biggest))
    result: Any = p.run()
    result.wait_until_finish()
    return result


@pytest.mark.parametrize("runner", [BatchRunner, StreamingRunner])
def test_it_has_what_went_in_and_came_out_of_each_step(runner: Any, golden: Golden) -> None:
    found = run(runner).summary()
    times = {r"[\d.]+ k?B": "N B", r"\d+\.\d s": "N s", r"(?<=\S)  +": "  "}
    varying = {**times, r" tasks, median .*": " tasks", r"  (columns|elements), .*": "  …"}
    golden(f"summary of {runner.__name__}.txt", str(found), varying)
    content = json.loads(json.dumps(found.content()))
    labels = [step["label"] for stage in content["stages"] for step in stage["steps"]]
    assert labels == [step.label for stage in found.stages for step in stage.steps]
    assert "Triple" in found._repr_html_()
    (triple,) = (s for stage in found.stages for s in stage.steps if s.label == "Triple")
    assert triple.seconds is not None


def test_tasks_show_skew() -> None:
    assert StageSummary("x", (), 3, 90, 30).skew == 3
    assert StageSummary("x", ()).skew is None


def test_the_stages_of_spark_are_told_once() -> None:
    spark = SparkStage(3, True, 8, 1, 1_200_000, 4_000, 5_000, 600, 500_000, 150_000)
    first, second = (StageSummary(name, (), spark=(spark,)) for name in ("A", "B"))
    assert str(RunSummary((first, second))).splitlines() == [
        "A",
        "  Spark's stage 3: 8 tasks, 1 failed attempt; 1.2 MB read from shuffles, 150.0 kB by the "
        "median task and 500.0 kB at most; 4.0 kB written to a shuffle; 5.0 kB spilled, 600 B on "
        "disk",
        "  step  in  out  time  bytes out",
        "B",
        "  Spark's stage 3, as above",
        "  step  in  out  time  bytes out",
    ]
    assert spark.skew == pytest.approx(10 / 3)
    assert SparkStage(3).skew is None


def test_spark_is_asked_once_for_a_stage_that_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def data(session: Any, id: int) -> dict[str, Any]:
        asked.append(id)
        if id == 9:
            raise LookupError("it is forgotten")
        return {"tasks": 2, "is_done": id == 1}

    monkeypatch.setattr(spark_stages, "is_classic", lambda session: True)
    monkeypatch.setattr(spark_stages, "stage_data", data)
    stages = SparkStages(None)
    for id in (2, 1, 9):
        stages.record_signal(started(0, "s0", id))
    assert [stage.id for stage in stages.by_stage()["s0"]] == [1, 2]
    assert [stage.id for stage in stages.by_stage()["s0"]] == [1, 2]
    assert asked == [1, 2, 9, 2, 9]


def started(number: int, stage: str, spark_stage: int) -> Signal:
    return Signal(SignalKind.STARTED, stage, 0, number=number, spark_stage=spark_stage)


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> SparkStages:
    monkeypatch.setattr(spark_stages, "is_classic", lambda session: True)
    monkeypatch.setattr(spark_stages, "stage_data", lambda session, id: {})
    monkeypatch.setattr(spark_stages, "executed_plans", lambda session, ids: [*map(str, ids)])
    return SparkStages(None)


def test_of_a_stage_counts_where_its_last_start_runs(stages: SparkStages) -> None:
    for number, spark_stage in ((0, 3), (0, 4), (1, 7), (0, 5), (1, -1)):
        stages.record_signal(started(number, "s0", spark_stage))
    assert stages.by_stage() == {"s0": [SparkStage(7)]}


def test_a_stage_without_a_task_in_the_last_micro_batch_has_no_plan_in_it(
    stages: SparkStages,
) -> None:
    for number, stage, spark_stage in ((4, "s0", 3), (4, "s1", 4), (5, "s0", 7), (5, "s0", 8)):
        stages.record_signal(started(number, stage, spark_stage))
    assert {*stages.plans()} == {"7", "8"}


def test_on_spark_shuffles_are_known(spark: Any) -> None:
    p = beam.Pipeline(SparkRunner(spark), argv=["--spark_parallelism=2"])
    numbers = p | beam.Create(range(1000)) | "Key" >> beam.Map(lambda x: (x % 7, "x" * 100))
    _ = numbers | beam.GroupByKey() | "Size" >> beam.MapTuple(lambda key, all: len(list(all)))
    result: Any = p.run()
    result.wait_until_finish()
    first, second = result.summary().stages
    assert sum(stage.written_bytes for stage in first.spark) > 0
    assert sum(stage.read_bytes for stage in second.spark) > 0
    assert "read from shuffles" in str(result.summary())


def test_a_run_that_has_not_begun_has_done_nothing() -> None:
    assert str(RunSummary()) == ""
    assert str(RunSummary(failed_attempts=2)) == "2 failed attempts"


def test_blocks_that_were_no_columns_after_all_are_told() -> None:
    name = f"{REFUSED_BLOCKS}an int exceeds 64 bits"
    infos = [monitoring_infos.int64_user_counter(NAMESPACE, name, 3, ptransform="Double")]
    figures = step_figures._Figures(infos)
    assert figures.refused("Double") == {"an int exceeds 64 bits": 3}
    told = StepSummary("Double", columns="columns", refused=figures.refused("Double"))
    text = str(RunSummary((StageSummary("Read + Double", (told,)),)))
    assert text.endswith("columns; 3 blocks refused: an int exceeds 64 bits")


def test_labels_may_be_any_text() -> None:
    found = RunSummary((StageSummary("a", (StepSummary("<b>\n&"),)),))
    assert "<b>" not in found._repr_html_().replace("<b>RUNNING", "")

"""Explanations: what they tell, and that nothing runs for them."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineState

from sparkbeam import Explanation, SparkRunner
from sparkbeam.explain.physical_plans import _without_repetition


def never(*_: Any) -> Any:
    raise AssertionError("user code was executed")


def pipeline(runner: Any = None, options: PipelineOptions | None = None) -> beam.Pipeline:
    """A pipeline with a grouping, a side input and a stage that another one reads later."""
    p = beam.Pipeline(runner=runner or SparkRunner(), options=options or PipelineOptions([]))
    pairs = p | "Numbers" >> beam.Create([1, 2]) | "Pair" >> beam.Map(lambda x: never(x))
    total = pairs | beam.Values() | "Total" >> beam.CombineGlobally(sum)
    shares = pairs | "Shares" >> beam.Map(never, beam.pvalue.AsSingleton(total))
    shares | "Group" >> beam.GroupByKey() | "Print" >> beam.Map(never)
    return p


@pytest.fixture(scope="module")
def explanation(spark: Any) -> Explanation:
    return SparkRunner(spark).explain(pipeline())


def test_an_explanation_goes_from_the_pipeline_to_the_stages_to_spark(
    explanation: Explanation,
) -> None:
    text = str(explanation)
    headings = ["Pipeline\n========", "Stages\n======", "Spark plan\n=========="]
    positions = [text.index(heading) for heading in headings]
    assert positions == sorted(positions)
    assert "Numbers" in explanation.pipeline
    assert "shuffle by key" in explanation.stages
    assert "== Physical Plan ==" in explanation.spark


def test_spark_operators_bear_the_names_of_the_stages(explanation: Explanation) -> None:
    for stage in explanation._plan.stages:
        assert f"MapInArrow {stage.id}: {stage.labels[0]}" in explanation.spark


def test_queries_that_collect_side_inputs_come_before_the_rest(explanation: Explanation) -> None:
    titles = [line for line in explanation.spark.splitlines() if line.startswith("Query")]
    number = len(titles)
    assert number > 1
    assert all("collects side inputs from s" in title for title in titles[:-1])
    assert titles[-1] == f"Query {number} of {number} runs the rest"


def test_what_is_persisted_is_told_once(spark: Any) -> None:
    p = beam.Pipeline(runner=SparkRunner(spark))
    pairs = p | "Numbers" >> beam.Create([1, 2]) | "Pair" >> beam.Map(lambda x: never(x))
    for name in ("One", "Two"):
        _ = pairs | name >> beam.GroupByKey() | f"Print {name}" >> beam.Map(never)
    explained = SparkRunner(spark).explain(p).spark
    assert explained.count("MapInArrow s0: ") == 1
    assert "+- (as above)" in explained


def test_what_waits_for_a_side_input_of_the_same_elements_is_not_persisted(
    explanation: Explanation,
) -> None:
    assert explanation.spark.count("MapInArrow s0: ") == 1
    assert "InMemoryRelation" not in explanation.spark
    assert "in files by the workers, until s3 may start" in explanation.stages


def test_explaining_starts_no_job(spark: Any) -> None:
    def jobs() -> list[int]:
        return list(spark.sparkContext.statusTracker().getJobIdsForGroup(None))

    before = jobs()
    SparkRunner(spark).explain(pipeline())
    assert jobs() == before


def test_explaining_leaves_nothing_persisted(spark: Any) -> None:
    SparkRunner(spark).explain(pipeline())
    assert spark._jsparkSession.sharedState().cacheManager().isEmpty()


def test_parallelism_shows_in_sparks_plan(spark: Any) -> None:
    options = PipelineOptions(["--spark_parallelism=7"])
    assert "hashpartitioning(key, 7)" in SparkRunner(spark).explain(pipeline(), options).spark


def test_the_option_prints_the_plan_and_gives_a_finished_result(
    spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    options = PipelineOptions(["--spark_explain"])
    result = pipeline(SparkRunner(spark), options).run()
    assert result.state == PipelineState.DONE
    assert result.wait_until_finish() == PipelineState.DONE
    assert result.metrics().query() == {name: [] for name in result.metrics().query()}
    assert capsys.readouterr().out.startswith("Pipeline\n========\n")


def test_an_explanation_is_saved_as_a_page_or_as_text(
    explanation: Explanation, tmp_path: Path
) -> None:
    explanation.save(tmp_path / "plan.HTML")
    page = (tmp_path / "plan.HTML").read_text(encoding="utf-8")
    assert page.count('<div class="box"') == len(explanation._plan.stages)
    assert "== Physical Plan ==" in page
    explanation.save(str(tmp_path / "plan.txt"))
    assert (tmp_path / "plan.txt").read_text(encoding="utf-8") == f"{explanation}\n"


def test_only_what_stood_above_is_left_out() -> None:
    plan = """\
Union
:- InMemoryRelation [a]
:     +- Outer
:        +- InMemoryRelation [b]
:              +- Inner
:- InMemoryRelation [b]
:     +- Inner
+- InMemoryRelation [c]
      +- Other

InMemoryRelation [a]
   +- Outer
      +- InMemoryRelation [b]
            +- Inner"""
    assert list(_without_repetition(plan.splitlines()))[5:] == [
        ":- InMemoryRelation [b]",
        ":     +- (as above)",
        "+- InMemoryRelation [c]",
        "      +- Other",
        "",
        "InMemoryRelation [a]",
        "   +- (as above)",
    ]

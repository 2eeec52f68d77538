"""What Spark's pages call the work of a pipeline."""

from typing import Any

import apache_beam as beam
import pytest
from in_process import Spark, StreamingRunner
from in_process_batch import BatchRunner

from sparkbeam import ConfigurationError, SparkBeamOptions
from sparkbeam.plan.redaction import Redaction
from sparkbeam.spark.job_names import JobNames
from sparkbeam.streaming.execution import named


def test_jobs_of_a_batch_tell_their_steps_and_are_a_group() -> None:
    runner = BatchRunner()
    p = beam.Pipeline(runner)
    side = beam.pvalue.AsList(p | "Few" >> beam.Create([1, 2]))
    p | "Many" >> beam.Create([3]) | "Pair" >> beam.Map(lambda x, few: (x, few), side)
    p.run()
    jobs: list[tuple[str, str]] = runner._session.jobs
    assert [text for _, text in jobs] == [
        "Collects side inputs of 'Many + Pair'",
        "Runs Few; Many + Pair",
    ]
    assert len({group for group, _ in jobs}) == 1


def test_descriptions_are_short_and_hold_no_secrets() -> None:
    spark = Spark()
    JobNames(spark, Redaction([("password", "s3cr3t-word")]))("Runs\ns3cr3t-word" + " x" * 500)
    ((_, text),) = spark.jobs
    assert text.startswith("Runs *** x")
    assert len(text) <= 300


def test_threads_that_share_one_of_the_jvm_describe_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "false")
    spark = Spark()
    JobNames(spark, Redaction())("Runs")
    assert spark.jobs == []


@pytest.mark.parametrize("option", ["query_name", "job_name"])
def test_a_query_has_the_name_that_is_given_or_that_of_the_job(option: str) -> None:
    spark = Spark()
    p = beam.Pipeline(StreamingRunner(spark), options=SparkBeamOptions([f"--{option}=counts"]))
    p | beam.Create([1])
    result: Any = p.run()
    result.wait_until_finish()
    assert spark.names == ["counts"]


def test_a_name_that_another_query_has_is_named() -> None:
    error = ValueError(
        "Cannot start query with name counts as a query with that name is already active"
    )
    taken = "--query_name='counts': another query"
    with pytest.raises(ConfigurationError, match=taken), named("counts"):
        raise error
    with pytest.raises(ValueError, match="already active"), named(None):
        raise error

"""What Spark's event log has of a pipeline."""

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from command import python
from in_process import StreamingRunner
from in_process_batch import BatchRunner

from sparkbeam.errors import PipelineFailed
from sparkbeam.explain import eventlog
from sparkbeam.explain.eventlog import EventLog

_PROGRAM = """
import sys, warnings
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows
from sparkbeam import SparkBeamOptions, SparkRunner
from sparkbeam.spark import session

def odd(x):
    warnings.warn("an odd one")
    return x % 2, x

settings = {"eventLog.enabled": "true", "eventLog.compress": "false", "eventLog.dir": sys.argv[1]}
spark = session.obtain(
    SparkBeamOptions(
        ["--spark_master=local[2]", *(f"--spark_conf=spark.{k}={v}" for k, v in settings.items())]
    )
)
for flags in (["--job_name=numbers"], ["--streaming", "--query_name=counts"]):
    p = beam.Pipeline(SparkRunner(spark), options=PipelineOptions(flags))
    _ = p | beam.Create([1, 2, 3]) | "Key it" >> beam.Map(odd) | "Sum it" >> beam.CombinePerKey(sum)
    p.run().wait_until_finish()
spark.stop()
"""


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The events of pipelines, on a session that seems to have an event log."""
    events: list[dict[str, Any]] = []

    def post(session: Any, event: dict[str, Any]) -> None:
        events.append(event)

    posted(monkeypatch, post)
    return events


def posted(monkeypatch: pytest.MonkeyPatch, post: Any) -> None:
    """Every session seems to have an event log, and what is told goes elsewhere."""
    made = partial(EventLog, post=post)
    monkeypatch.setattr(
        "sparkbeam.runner.spark_runner.eventlog", SimpleNamespace(is_on=bool, EventLog=made)
    )


def run(runner: Any, *flags: str, step: Any = str) -> None:
    p = beam.Pipeline(runner, options=PipelineOptions([*flags]))
    _ = p | beam.Create([1]) | beam.Reshuffle() | "Step Tr0ub4dor" >> beam.Map(step)
    p.run().wait_until_finish()


@pytest.mark.parametrize("runner", [BatchRunner, StreamingRunner])
def test_a_pipeline_is_a_query_with_its_stages(runner: Any, told: list[dict[str, Any]]) -> None:
    run(runner(), "--job_name=orders")
    start, update, end = told
    assert [event["Event"].rpartition(".")[2] for event in told] == [
        "SparkListenerSQLExecutionStart",
        "SparkListenerSQLAdaptiveExecutionUpdate",
        "SparkListenerSQLExecutionEnd",
    ]
    assert len({event["executionId"] for event in told}) == 1
    assert start["description"] == "Beam pipeline 'orders'"
    (last,) = start["sparkPlanInfo"]["children"]
    assert "Step Tr0ub4dor" in last["nodeName"]
    assert "Create" in last["children"][0]["nodeName"]
    assert update["physicalPlanDescription"].startswith("== DONE ==")
    assert ("One Structured Streaming query" in start["physicalPlanDescription"]) == (
        runner is StreamingRunner
    )
    assert end["errorMessage"] == ""


def test_it_fails_with_what_the_pipeline_fails_with(told: list[dict[str, Any]]) -> None:
    with pytest.raises(PipelineFailed):
        run(BatchRunner(), "--spark_conf=spark.my.password=Tr0ub4dor", step=_fail)
    assert "ValueError: ***" in told[-1]["errorMessage"]
    assert "Tr0ub4dor" not in json.dumps(told)


def _fail(element: Any) -> None:
    raise ValueError("Tr0ub4dor")


def test_a_log_that_takes_nothing_harms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def no(session: Any, event: Any) -> None:
        raise TypeError("no such event")

    posted(monkeypatch, no)
    run(BatchRunner())


def test_without_a_log_nothing_is_told() -> None:
    assert not eventlog.is_on(BatchRunner()._session)
    assert not eventlog.is_on(None)


@pytest.mark.long("40 s; the tests above have what is written to the log")
def test_the_log_of_a_batch_and_a_stream(tmp_path: Path) -> None:
    python("-c", _PROGRAM, tmp_path)
    files = [file for file in tmp_path.rglob("events*") if file.is_file()]
    events = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    kinds = [event["Event"].rpartition(".")[2] for event in events]
    jobs = [event["Properties"] for event in events if event["Event"] == "SparkListenerJobStart"]
    described = {job.get("spark.job.description", "").partition("\n")[0] for job in jobs}
    assert {"Runs Create + Key it + Sum it; Sum it", "counts"} <= described
    queries = [event for event in events if event["Event"].endswith("SQLExecutionStart")]
    plans = "\n".join(event["physicalPlanDescription"] for event in queries)
    for label in ("s0: Create + Key it + Sum it", "s1: Sum it", "layer 0 s0: Create"):
        assert label in plans
    ours = [event for event in queries if event["description"].startswith("Beam pipeline")]
    names = [event["description"] for event in ours]
    assert names == ["Beam pipeline 'numbers'", "Beam pipeline 'counts'"]
    outcomes = [event for event in events if event["Event"].endswith("AdaptiveExecutionUpdate")]
    told = {event["executionId"]: event["physicalPlanDescription"] for event in outcomes}
    for event in ours:
        assert "UserWarning: an odd one" in told[event["executionId"]]
    assert "StreamingQueryListener$QueryProgressEvent" in kinds

"""What Spark's event log has of a pipeline."""

import json
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from in_process import Conf, Spark, StreamingRunner
from in_process_batch import BatchRunner

from sparkbeam.errors import PipelineFailed
from sparkbeam.explain import eventlog
from sparkbeam.explain.eventlog import EventLog


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The events of pipelines, on a session that seems to have an event log."""
    events: list[dict[str, Any]] = []
    posted(monkeypatch, lambda session, event: events.append(event))
    return events


def posted(monkeypatch: pytest.MonkeyPatch, post: Any) -> None:
    """Every session seems to have an event log, and what is told goes elsewhere."""
    monkeypatch.setattr(eventlog, "post_event", post)
    monkeypatch.setattr(
        "sparkbeam.runner.spark_runner.eventlog", SimpleNamespace(is_on=bool, EventLog=EventLog)
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


def test_a_session_of_spark_has_a_log_if_its_setting_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = Spark()
    assert not eventlog.is_on(session)
    assert not eventlog.is_on(None)
    session.conf = Conf({"spark.eventLog.enabled": "true"})
    assert not eventlog.is_on(session), "it is not Spark's own"
    monkeypatch.setattr(eventlog, "is_classic", bool)
    assert eventlog.is_on(session)
    session.conf = Conf({"spark.eventLog.enabled": "false"})
    assert not eventlog.is_on(session)

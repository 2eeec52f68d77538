"""A run starts again where Spark gave up because of lost executors, and only there."""

import logging
import time
from collections.abc import Callable

import pytest

from sparkbeam.spark.recovery import RERUNS, recovering
from sparkbeam.wire.failure import FailureReports

REPORTS = FailureReports()

INDETERMINATE = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: A shuffle map stage with "
    "indeterminate output was failed and retried. However, Spark cannot rollback the ResultStage 4 "
    "to re-process the input data, and has to fail this job."
)


def failing(times: int, error: Exception) -> tuple[Callable[[], str], list[int]]:
    """A run that fails some times before it succeeds, and a list that grows with each attempt."""
    attempts: list[int] = []

    def run() -> str:
        attempts.append(len(attempts))
        if len(attempts) <= times:
            raise error
        return "done"

    return run, attempts


@pytest.mark.parametrize(
    "text",
    [
        INDETERMINATE,
        "cannot rollback a running result stage, please re-run the query",
        "ShuffleMapStage 2 has failed the maximum allowable number of times: 4. Most recent "
        "failure reason: org.apache.spark.shuffle.MetadataFetchFailedException",
        "Task 1 in stage 2.0 failed 4 times, most recent failure: Lost task 1.3 in stage 2.0 "
        "(TID 9) (10.0.0.2 executor 3): ExecutorLostFailure (executor 3 exited)",
        "Task 2 in stage 51.0 failed 1 times, most recent failure: Lost task 2.0 in stage 51.0 "
        "(TID 84) (10.0.0.2 executor driver): java.nio.channels.ClosedChannelException",
    ],
)
def test_what_spark_could_not_repair_is_run_again(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    run, attempts = failing(1, RuntimeError(text))
    with caplog.at_level(logging.WARNING):
        assert recovering(run, REPORTS) == "done"
    assert len(attempts) == 2
    assert "starts again" in caplog.text


def test_a_machine_that_cannot_start_a_worker_gets_more_and_more_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    text = "Lost task 0.0 in stage 3.0: SparkException: Python worker failed to connect back."
    run, attempts = failing(2, RuntimeError(text))
    assert recovering(run, REPORTS) == "done"
    assert len(attempts) == 3
    assert pauses == [2, 8]


@pytest.mark.parametrize("progress", [[], [lambda: 5]], ids=["batch", "comes no further"])
def test_there_is_an_end_to_it(progress: list[Callable[[], int]]) -> None:
    run, attempts = failing(10, RuntimeError(INDETERMINATE))
    with pytest.raises(RuntimeError, match="indeterminate"):
        recovering(run, REPORTS, *progress)
    assert len(attempts) == 1 + RERUNS


def test_a_run_that_comes_further_each_time_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    run, attempts = failing(10, RuntimeError(INDETERMINATE))
    with caplog.at_level(logging.WARNING):
        assert recovering(run, REPORTS, lambda: len(attempts)) == "done"
    assert "from its checkpoint" in caplog.text


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Task 1 in stage 2.0 failed 4 times, most recent failure: out of disk"),
        REPORTS.report(ValueError(INDETERMINATE), "Step"),
    ],
)
def test_other_failures_are_not_run_again(error: Exception) -> None:
    run, attempts = failing(1, error)
    with pytest.raises(type(error)):
        recovering(run, REPORTS)
    assert len(attempts) == 1

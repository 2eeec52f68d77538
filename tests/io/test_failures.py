"""Failures of Spark's sources and sinks in a streaming query."""

from typing import Any

import apache_beam as beam
import pytest

from sparkbeam import PipelineFailed, SparkRunner
from sparkbeam.io import WriteToSpark
from sparkbeam.run import run
from sparkbeam.spark import failures

SECRET = "correct-horse"


def test_a_secret_in_the_users_own_exception_does_not_reach_spark(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(number: int) -> beam.Row:
        raise KeyError(f"no login with '{SECRET}' at {number}", SECRET)

    seen: list[str] = []

    def explained(error: Exception, *rest: Any) -> Exception:
        seen.append(str(error))
        return failures.explained(error, *rest)

    monkeypatch.setattr(run, "explained", explained)
    pipeline = beam.Pipeline(SparkRunner(spark))
    _ = (
        pipeline
        | beam.Create([1])
        | "Log in" >> beam.Map(fail)
        | WriteToSpark("jdbc", {"password": SECRET}, "id bigint")
    )
    with pytest.raises(PipelineFailed, match="Step 'Log in' failed: KeyError") as caught:
        pipeline.run().wait_until_finish()
    assert isinstance(caught.value.__cause__, KeyError)
    first, second = caught.value.__cause__.args
    assert (first.split(" [")[0], second) == ("no login with '***' at 1", "***")
    assert "WorkerFailure" in seen[0]
    assert SECRET not in seen[0]

"""Errors of Spark about disks and files of a checkpoint, told as in the table beside this module.

A case is an error of Spark, a line of dashes and what is told of it, with an empty line around it.
"""

from pathlib import Path

import pytest

from sparkbeam.spark.failures import explained
from sparkbeam.wire.failure import FailureReports

FRAMES = "\n".join(
    f"\tat org.apache.spark.sql.execution.Some.method{n}(Some.scala)" for n in range(99)
)
_, *CASES = Path(__file__).with_suffix(".txt").read_text().strip().split("\n\n")


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_an_error_of_spark_is_told(case: str) -> None:
    text, _, told = case.partition("\n----\n")
    error = explained(RuntimeError(f"{text}\n{FRAMES}"), FailureReports())
    assert f"{type(error).__name__}: {error}" == told

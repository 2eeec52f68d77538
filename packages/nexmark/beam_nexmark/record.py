"""Record of one run of a query."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

OURS = "sparkbeam.SparkRunner"
"""Name of sparkbeam's own runner; others have their class names."""

PASSED = "passed"
"""Value of ``checked`` for a right result."""


@dataclass(frozen=True)
class QueryRun:
    """One run of one query.

    Attributes:
        started: the start of the invocation, ISO 8601 in UTC.
        repeat: the number of the run among the repeats of its invocation, from 1.
        runner: ``OURS``, or the class name of another runner.
        mode: ``batch``, ``streaming``, or ``streaming at N/s`` if a stream has a rate; followed by
            ``, in SQL`` if the query is.
        configuration: all settings of generator and queries.
        cores: the number of concurrent tasks of the runner.
        seconds: from the start of the pipeline to its end; None if it failed.
        digest: order-independent hash of the results, in hexadecimal.
        peak_memory: peak bytes of this process and its children together.
        checked: None if unchecked, ``passed``, or the difference.
        revision: the commit of sparkbeam, with ``+`` if files were modified; None if unknown.
        machine: processor, cores and memory; None if unknown.
        pace: the seconds that a fixed piece of Python took just before the run, as a measure of the
            machine's load; None if unknown.
    """

    started: str
    repeat: int
    query: int
    name: str
    runner: str
    mode: str
    events: int
    configuration: dict[str, Any]
    cores: int
    sparkbeam: str
    beam: str
    pyspark: str
    python: str
    seconds: float | None = None
    results: int | None = None
    digest: str | None = None
    peak_memory: int | None = None
    failure: str | None = None
    checked: str | None = None
    revision: str | None = None
    machine: str | None = None
    pace: float | None = None

    @property
    def is_right(self) -> bool:
        """Return whether it ran, and no check failed."""
        return self.failure is None and self.checked in (None, PASSED)

    @property
    def label(self) -> str:
        """The number and the name of the query."""
        return f"q{self.query} {self.name}"

    @property
    def contestant(self) -> str:
        """The runner with its version."""
        if self.runner == OURS:
            return f"sparkbeam {self.sparkbeam}"
        return f"{self.runner} of Beam {self.beam}"


def median_seconds(runs: Iterable[QueryRun]) -> float | None:
    """Return the median runtime of the successful runs; None if there are none."""
    times = [run.seconds for run in runs if run.seconds is not None]
    return median(times) if times else None

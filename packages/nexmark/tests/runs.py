"""Runs as the tests need them."""

from typing import Any

from beam_nexmark.record import QueryRun


def a_run(**changes: Any) -> QueryRun:
    """A run of query 3 that took a second."""
    values: dict[str, Any] = {
        "started": "2026-01-02T03:04:05+00:00",
        "repeat": 1,
        "query": 3,
        "name": "local item suggestion",
        "runner": "sparkbeam.SparkRunner",
        "mode": "batch",
        "events": 1000,
        "configuration": {"events": 1000},
        "cores": 2,
        "sparkbeam": "0.1.0",
        "beam": "2.77.0",
        "pyspark": "4.3.0",
        "python": "3.11.2",
        "seconds": 1.0,
        "results": 580,
        "digest": "0123456789abcdef0123456789abcdef",
        "peak_memory": 1_500_000_000,
    }
    return QueryRun(**{**values, **changes})


def runs_of(*seconds: float, **changes: Any) -> list[QueryRun]:
    """A run for each of the times."""
    return [
        a_run(seconds=time, repeat=number, **changes)
        for number, time in enumerate(seconds, start=1)
    ]

"""Phases of a micro-batch: Spark's, and those of the sink within ``addBatch``."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

ADD_BATCH = "addBatch"

OF_SPARK = ("latestOffset", "getBatch", "queryPlanning", "walCommit", ADD_BATCH, "commitOffsets")
"""Names of Spark's phases, in order; ``addBatch`` includes the tasks and the sink."""

STAGES, DELIVERY, COLLECTING, FEEDBACK = "stages", "delivery", "collecting", "feedback"

OF_SINK = (STAGES, DELIVERY, COLLECTING, FEEDBACK)
"""Names of the phases within ``addBatch``, in order.

Tasks run the stages, Spark's sinks write their rows, the reports of tasks are added up, and the
feedback is written.
"""

Phases = Mapping[str, int]
"""Durations in microseconds by name; those that are not known are missing."""


class Stopwatch:
    """Stopwatch for the phases of successive micro-batches."""

    def __init__(self) -> None:
        self.phases: dict[str, int] = {}

    @contextmanager
    def within(self, phase: str) -> Iterator[None]:
        """Measure a phase."""
        begun = time.monotonic_ns()
        yield
        self.phases[phase] = (time.monotonic_ns() - begun) // 1000


def of_progress(progress: Mapping[str, Any]) -> dict[str, int]:
    """Return the phases in a progress event of Spark; none if it is not of a micro-batch."""
    millis = progress["durationMs"]
    if ADD_BATCH not in millis:
        return {}
    return {name: 1000 * int(millis[name]) for name in OF_SPARK if name in millis}


def known(phases: Phases) -> Phases:
    """Leave out unknown phases, which may be in a file."""
    return {name: phases[name] for name in (*OF_SPARK, *OF_SINK) if name in phases}


def in_words(seconds: Mapping[str, float]) -> str:
    """Format the phases on one line: ``walCommit 12 ms, addBatch 80 ms (stages 64 ms), …``."""
    inner = ", ".join(f"{name} {_millis(seconds[name])}" for name in OF_SINK if name in seconds)
    found = []
    for name in OF_SPARK:
        if name == ADD_BATCH and inner:
            total = f" {_millis(seconds[name])}" if name in seconds else ""
            found.append(f"{name}{total} ({inner})")
        elif name in seconds:
            found.append(f"{name} {_millis(seconds[name])}")
    return ", ".join(found)


def _millis(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"

"""History of one query under the same conditions, by build."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import NamedTuple

from beam_nexmark.provenance import CHANGED
from beam_nexmark.record import PASSED, QueryRun

_HASH_CHARACTERS = 7
_MINUTE = len("2026-01-02T03:04")


class Conditions(NamedTuple):
    """Conditions that must be equal for runs of a query to be compared over time.

    Attributes:
        query, runner, mode, cores, machine: as in a :class:`~beam_nexmark.record.QueryRun`.
        configuration: all settings, as JSON.
    """

    query: int
    runner: str
    mode: str
    cores: int
    machine: str | None
    configuration: str


@dataclass(frozen=True)
class Point:
    """The runs of a series on one build of sparkbeam.

    Attributes:
        build: see :func:`build`.
        runs: at least one.
    """

    build: str
    runs: Sequence[QueryRun]

    @cached_property
    def times(self) -> Sequence[float]:
        """Seconds of all repeats; none if one of them failed."""
        times = [run.seconds for run in self.runs if run.failure is None]
        complete = [time for time in times if time is not None]
        return complete if len(complete) == len(self.runs) else []

    @cached_property
    def paced(self) -> Sequence[float]:
        """Times in units of the machine's pace; none if that of a run is unknown."""
        runs = self.runs if self.times else []
        found = [run.seconds / run.pace for run in runs if run.seconds and run.pace]
        return found if len(found) == len(runs) else []

    @property
    def median(self) -> float | None:
        """Seconds; None if a run failed."""
        return median(self.times) if self.times else None

    @property
    def failure(self) -> str | None:
        """The error of the first failed run; None if all succeeded."""
        return next((run.failure for run in self.runs if run.failure is not None), None)

    @property
    def wrong(self) -> str | None:
        """The error found by a check; None if there was none."""
        return next((run.checked for run in self.runs if run.checked not in (None, PASSED)), None)

    @property
    def is_checked(self) -> bool:
        """Return whether all results have been checked and are right."""
        return all(run.checked == PASSED for run in self.runs)

    @property
    def outcomes(self) -> set[tuple[int, str]]:
        """Count and digest of the results of each successful run."""
        return {(run.results or 0, run.digest or "") for run in self.runs if run.failure is None}

    @property
    def results(self) -> str:
        """Counts and digests of the results, as text."""
        return " or ".join(f"{count:,} ({digest[:12]})" for count, digest in sorted(self.outcomes))


@dataclass(frozen=True)
class Series:
    """All runs of a query under the same conditions.

    Attributes:
        points: one per build, in the order of their first runs.
    """

    conditions: Conditions
    points: Sequence[Point]

    @property
    def first(self) -> QueryRun:
        """A run that identifies the query."""
        return self.points[0].runs[0]


def build(run: QueryRun) -> str:
    """Return the build of a run: a short commit, or the invocation if the commit is unknown."""
    if run.revision is not None and not run.revision.endswith(CHANGED):
        return run.revision[:_HASH_CHARACTERS]
    code = run.sparkbeam
    if run.revision is not None:
        code = run.revision[:_HASH_CHARACTERS] + CHANGED
    return f"{code} {run.started[:_MINUTE].replace('T', ' ')}"


def builds(runs: Iterable[QueryRun]) -> list[str]:
    """Return all builds in the order of their first runs."""
    return list(dict.fromkeys(build(run) for run in sorted(runs, key=lambda run: run.started)))


def series(runs: Iterable[QueryRun]) -> list[Series]:
    """Return the series of a history, in order of query, then of conditions."""
    found: dict[Conditions, dict[str, list[QueryRun]]] = defaultdict(lambda: defaultdict(list))
    for run in sorted(runs, key=lambda run: run.started):
        found[conditions(run)][build(run)].append(run)
    return [
        Series(equal, [Point(name, group) for name, group in points.items()])
        for equal, points in sorted(found.items(), key=lambda one: (one[0].query, str(one[0])))
    ]


def conditions(run: QueryRun) -> Conditions:
    """Return the conditions of a run."""
    settings = json.dumps(run.configuration, sort_keys=True)
    return Conditions(run.query, run.runner, run.mode, run.cores, run.machine, settings)

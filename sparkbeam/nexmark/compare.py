"""Comparison of two files of runs, query by query.

A query's *result* changed if count or digest differ, or if it fails where it ran. It became
*slower* if both hold:

- every run of the new file takes longer than every run of the old one, and
- the median runtime grew by more than the tolerance: 10 % by default, 50 % where
  a side has fewer than three runs, as nothing is known of its noise then.

With three runs on each side, the first rule alone is met by chance in 1 of 20 comparisons of equal
programs; the second keeps what is true but small out.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sparkbeam.errors import ConfigurationError
from sparkbeam.nexmark.record import QueryRun, median_seconds

TOLERANCE = 0.1
UNKNOWN_NOISE = 0.5
ENOUGH_RUNS = 3


class Verdict(StrEnum):
    """The result of comparing a query."""

    SAME = "same"
    FASTER = "faster"
    SLOWER = "slower"
    CHANGED = "result changed"
    WRONG = "wrong result"
    FAILS = "fails now"
    REPAIRED = "runs now"
    BROKEN = "fails in both"
    MISSING = "only in one"

    @property
    def is_regression(self) -> bool:
        """Return whether it blocks a release."""
        return self in _REGRESSIONS


_REGRESSIONS = (Verdict.SLOWER, Verdict.CHANGED, Verdict.WRONG, Verdict.FAILS)


@dataclass(frozen=True)
class Comparison:
    """One query in the old and in the new file."""

    old: Sequence[QueryRun]
    new: Sequence[QueryRun]
    tolerance: float = TOLERANCE

    @property
    def query(self) -> QueryRun:
        """A run that identifies the query and its number of events."""
        return (*self.old, *self.new)[0]

    @property
    def change(self) -> float | None:
        """The growth of the median runtime, as a fraction of the old one."""
        old, new = median_seconds(self.old), median_seconds(self.new)
        return None if old is None or new is None else new / old - 1

    @property
    def verdict(self) -> Verdict:
        """The verdict."""
        if not self.old or not self.new:
            return Verdict.MISSING
        failed_before = any(run.failure for run in self.old)
        if any(run.failure for run in self.new):
            return Verdict.BROKEN if failed_before else Verdict.FAILS
        if failed_before:
            return Verdict.REPAIRED
        if _outcomes(self.old) != _outcomes(self.new):
            return Verdict.CHANGED
        if _beyond_noise(self.old, self.new, self.tolerance):
            return Verdict.SLOWER
        if _beyond_noise(self.new, self.old, self.tolerance):
            return Verdict.FASTER
        return Verdict.SAME

    @property
    def explanation(self) -> str:
        """The verdict with its reason."""
        verdict = self.verdict
        match verdict:
            case Verdict.MISSING:
                return f"only in the {'old' if self.old else 'new'} file"
            case Verdict.FAILS | Verdict.BROKEN:
                return f"{verdict}: {next(run.failure for run in self.new if run.failure)}"
            case Verdict.CHANGED:
                return f"{verdict}: {_described(self.old)} -> {_described(self.new)}"
            case _:
                return verdict


def compared(
    old: Iterable[QueryRun], new: Iterable[QueryRun], tolerance: float = TOLERANCE
) -> list[Comparison]:
    """Return the queries of both files, in order of their numbers.

    Raises:
        ConfigurationError: no query has the same configuration in both.
    """
    sides: dict[str, tuple[list[QueryRun], list[QueryRun]]] = defaultdict(lambda: ([], []))
    for number, runs in enumerate((old, new)):
        for run in runs:
            sides[run.workload][number].append(run)
    comparisons = [Comparison(*pair, tolerance) for pair in sides.values()]
    if all(comparison.verdict is Verdict.MISSING for comparison in comparisons):
        raise ConfigurationError(
            "The files have no query with the same number of events and settings in common."
        )
    return sorted(comparisons, key=lambda one: (one.query.query, one.query.events))


def _outcomes(runs: Iterable[QueryRun]) -> set[tuple[int, str]]:
    return {(run.results or 0, run.digest or "") for run in runs}


def _described(runs: Iterable[QueryRun]) -> str:
    return " or ".join(f"{count:,} ({digest})" for count, digest in sorted(_outcomes(runs)))


def _beyond_noise(fast: Sequence[QueryRun], slow: Sequence[QueryRun], tolerance: float) -> bool:
    if min(len(fast), len(slow)) < ENOUGH_RUNS:
        tolerance = max(tolerance, UNKNOWN_NOISE)
    before, after = _times(fast), _times(slow)
    if not before or not after:
        return False
    growth = (median_seconds(slow) or 0) - (median_seconds(fast) or 0)
    return min(after) > max(before) and growth > tolerance * (median_seconds(fast) or 0)


def _times(runs: Iterable[QueryRun]) -> list[float]:
    return [run.seconds for run in runs if run.seconds is not None]

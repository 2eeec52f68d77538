"""Release criteria for the newest build of a history.

It fails them if, under the conditions of its measurement, one of its queries

- became slower, or gives another result than the build before,
- has a wrong result, or fails though it ran on an earlier build,
- was measured on an earlier build and is left out now, or
- is worse than on the last release: it became slower since, or many small slowdowns
  have made a large one, as ``sparkbeam nexmark compare`` sees it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import median

from sparkbeam.nexmark.changes import ENOUGH_BEFORE, Change, changes, percent
from sparkbeam.nexmark.compare import TOLERANCE, UNKNOWN_NOISE, Comparison, Verdict
from sparkbeam.nexmark.record import QueryRun
from sparkbeam.nexmark.series import Conditions, Point, Series, builds, series

_POOLED = 3
"""Number of builds from the last release on, and up to the newest, that are compared."""


@dataclass(frozen=True)
class Finding:
    """An objection to a release.

    Attributes:
        series: the series of the query.
        text: the problem, such as ``q6 +38 % at 1d6d982``.
    """

    series: Series
    text: str


@dataclass(frozen=True)
class Judgement:
    """The judgement of the newest build of a history.

    Attributes:
        build: the build.
        judged: the series in which it was measured.
        findings: the objections; none if it may be released.
    """

    build: str
    judged: Sequence[Series]
    findings: Sequence[Finding]


def judged(
    runs: Sequence[QueryRun], build: str, since: str | None = None, tolerance: float = TOLERANCE
) -> Judgement:
    """Judge ``build`` against the builds before it, and against ``since``, the last release.

    Args:
        runs: a history with runs of both.
        build: the build, as named by :func:`~sparkbeam.nexmark.series.build`.
        since: another build; None for none.
        tolerance: the maximum growth of a median, as a fraction.
    """
    known = builds(runs)
    past = known[: known.index(build) + 1]
    found = [_until(one, past) for one in series(runs)]
    measured = [one for one in found if one.at(build) is not None]
    conditions = {_shared(one.conditions) for one in measured}
    findings = [
        Finding(one, text)
        for one in found
        if one.points and _shared(one.conditions) in conditions
        for text in _against(one, build, since, tolerance)
    ]
    return Judgement(build, measured, findings)


def _until(one: Series, past: Sequence[str]) -> Series:
    """Return the series up to the last of the builds."""
    return replace(one, points=[point for point in one.points if point.build in past])


def _shared(conditions: Conditions) -> Conditions:
    """Return the conditions shared by the queries of one invocation."""
    return conditions._replace(query=0)


def _against(one: Series, build: str, since: str | None, tolerance: float) -> list[str]:
    query = f"q{one.first.query}"
    point = one.at(build)
    if point is None:
        return [f"{query} has not run at {build}, but at {one.points[-1].build}"]
    found = changes(one, tolerance)
    here = [change for change in found if change.point is point]
    texts = [str(change) for change in here if change.verdict.is_regression]
    texts = texts or _standing(one, point)
    release = one.at(since) if since else None
    if texts or release is None or release is point:
        return texts
    return _slower(one, found, release) or _creeping(one, release, point, tolerance)


def _slower(one: Series, found: Sequence[Change], release: Point) -> list[str]:
    """Return the last change of the runtime after a release, if it was a slowdown."""
    since = [point.build for point in one.points[one.points.index(release) + 1 :]]
    later = [change for change in found if change.growth is not None]
    later = [change for change in later if change.point.build in since]
    return [str(change) for change in later[-1:] if change.verdict is Verdict.SLOWER]


def _standing(one: Series, point: Point) -> list[str]:
    """Return problems that existed before and persist."""
    if point.failure is not None and any(other.failure is None for other in one.points):
        return [str(Change(one, point, Verdict.FAILS, reason=point.failure))]
    if point.wrong is not None:
        return [str(Change(one, point, Verdict.WRONG, reason=point.wrong))]
    return []


def _creeping(one: Series, release: Point, point: Point, tolerance: float) -> list[str]:
    """Return problems that built up gradually since a release."""
    comparison = Comparison(release.runs, point.runs, tolerance)
    verdict, what = comparison.verdict, comparison.explanation
    if not verdict.is_regression or (verdict is Verdict.CHANGED and point.is_checked):
        return []
    if verdict is Verdict.SLOWER:
        growth, runs = _growth(one, release, point)
        if growth <= (tolerance if runs >= ENOUGH_BEFORE else max(tolerance, UNKNOWN_NOISE)):
            return []
        what = percent(growth)
    return [f"q{one.conditions.query} {what} at {point.build} since {release.build}"]


def _growth(one: Series, release: Point, point: Point) -> tuple[float, int]:
    """Return the growth of the median since a release, and the smaller number of runs.

    Several builds are combined, as each has few repeats. The growth is the smaller one of that in
    seconds and, if known, that in units of the machine's pace.
    """
    between = one.points[one.points.index(release) : one.points.index(point) + 1]
    pooled = min(_POOLED, len(between) // 2)
    old, new = between[:pooled], between[-pooled:]
    times = _all(point.times for point in old), _all(point.times for point in new)
    paced = _all(point.paced for point in old), _all(point.paced for point in new)
    known = [ends for ends in (times, paced) if all(ends)]
    return min(median(after) / median(before) for before, after in known) - 1, min(map(len, times))


def _all(parts: Iterable[Iterable[float]]) -> list[float]:
    return list(chain.from_iterable(parts))

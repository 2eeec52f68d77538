"""Detection of changes over time: slower or faster, wrong or failing queries.

The runtime of a build is compared with the band of all repeats of the builds before it, of the last
five since the runtime last changed. It *changed* if

- the median of the build's repeats is beyond the band by more than half of its
  width, and so is the median over this build and the two after it, if any, as a
  single build may have been measured on a busy machine; and
- it differs from the band's median by more than 10 %, or by more than 50 % where
  the build has fewer than three repeats or the band fewer than nine; and
- all that holds in units of the machine's pace as well, if known, as a machine may be
  busy for a while, or slower than others of its kind.

Of 34,680 builds with three repeats and normal noise of 5 % two changed by chance;
of 1,000 growths by 30 % 967 were found (``bench/changes.py``).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from statistics import median

from beam_nexmark.record import QueryRun
from beam_nexmark.series import Point, Series, build, conditions, series

_TOLERANCE = 0.1
_UNKNOWN_NOISE = 0.5
_ENOUGH_RUNS = 3
_ENOUGH_BEFORE = 9
_BEFORE = 5
_AFTER = 2
_MARGIN = 0.5

CONFIRMATIONS = 2
"""Number of further runs that have to confirm a slowdown."""

_LEAST_BEFORE = 3
_LEAST_SECONDS = 0.3


class Verdict(StrEnum):
    """The kind of a change."""

    FASTER = "faster"
    SLOWER = "slower"
    CHANGED = "result changed"
    WRONG = "wrong result"
    FAILS = "fails now"
    REPAIRED = "runs now"

    @property
    def is_regression(self) -> bool:
        """Return whether it makes the build worse."""
        return self not in (Verdict.FASTER, Verdict.REPAIRED)


@dataclass(frozen=True)
class Change:
    """A build at which the series of a query changes.

    Attributes:
        point: the first differing point.
        growth: of the median runtime, as a fraction of the earlier one; None for other changes.
        reason: the failure or wrong result, on one line.
    """

    series: Series
    point: Point
    verdict: Verdict
    growth: float | None = None
    reason: str = ""

    def __str__(self) -> str:
        """Format like ``q6 +38 % at 1d6d982``."""
        what = str(self.verdict) if self.growth is None else percent(self.growth)
        reason = f": {self.reason}" if self.reason else ""
        return f"q{self.series.first.query} {what} at {self.point.build}{reason}"


def changes(series: Series, tolerance: float = _TOLERANCE) -> list[Change]:
    """Return all changes of a series, in the order of its builds.

    Args:
        tolerance: the maximum growth of a median, as a fraction.
    """
    found: list[Change] = []
    start = 0
    for number in range(len(series.points)):
        outcome, runtime = _outcome(series, number), _runtime(series, number, start, tolerance)
        found += [change for change in (outcome, runtime) if change is not None]
        if runtime is not None:
            start = number
    return found


def percent(growth: float) -> str:
    """Format like ``+38 %``."""
    return f"{growth:+.0%}".replace("%", " %")


def slowdown(past: Sequence[QueryRun], now: Sequence[QueryRun], tolerance: float) -> float | None:
    """Return the growth of the runtime of a query, as a fraction; None if it is no slowdown.

    It is one if the fastest of the runs takes longer than usual by more than the tolerance and by
    0.3 s, in seconds and in units of the machine's pace. Usual is the median over the last five
    builds under the same conditions; with fewer than three of them nothing is slower.

    Args:
        now: runs of a query on one build.
        tolerance: the maximum growth, as a fraction.
    """
    last = Point(build(now[0]), now)
    equal = [run for run in past if conditions(run) == conditions(now[0])]
    points = [point for one in series(equal) for point in one.points if point.build != last.build]
    recent = [point for point in points if point.times][-_BEFORE:]
    if len(recent) < _LEAST_BEFORE or not last.times:
        return None
    usual = median(median(point.times) for point in recent)
    growths = [min(last.times) / usual - 1]
    paced = [median(point.paced) for point in recent if point.paced]
    if paced and last.paced:
        growths.append(min(last.paced) / median(paced) - 1)
    is_slower = min(growths) > tolerance and min(last.times) - usual > _LEAST_SECONDS
    return min(growths) if is_slower else None


def _outcome(series: Series, number: int) -> Change | None:
    """Return the change of results or failures since the previous build."""
    point = series.points[number]
    last = series.points[number - 1] if number else None
    if point.failure is not None:
        if last is None or last.failure is not None:
            return None
        return Change(series, point, Verdict.FAILS, reason=point.failure)
    if point.wrong is not None:
        if last is not None and last.wrong is not None:
            return None
        return Change(series, point, Verdict.WRONG, reason=point.wrong)
    ran = next((one for one in reversed(series.points[:number]) if one.failure is None), None)
    if ran is not None and point.outcomes != ran.outcomes and not point.is_checked:
        reason = f"{ran.results} -> {point.results}"
        return Change(series, point, Verdict.CHANGED, reason=reason)
    if last is not None and (last.failure or last.wrong):
        return Change(series, point, Verdict.REPAIRED)
    return None


def _runtime(series: Series, number: int, start: int, tolerance: float) -> Change | None:
    """Return the change of the runtime since ``start``, unless a busy machine explains it."""
    point = series.points[number]
    if not point.times or point.wrong is not None:
        return None
    before = [one for one in series.points[start:number] if one.wrong is None]
    after = series.points[number : number + 1 + _AFTER]
    verdict = _beyond([one.times for one in before], [one.times for one in after], tolerance)
    paced = [one.paced for one in before], [one.paced for one in after]
    if verdict is None:
        return None
    if point.paced and any(paced[0]) and _beyond(*paced, tolerance) is not verdict:
        return None
    growth = median(point.times) / median(_band([one.times for one in before])) - 1
    return Change(series, point, verdict, growth)


def _beyond(
    before: Sequence[Sequence[float]], after: Sequence[Sequence[float]], tolerance: float
) -> Verdict | None:
    """Return the lasting difference of the first of some times from those before; None if none."""
    band = _band(before)
    if not band:
        return None
    usual = median(band)
    if len(after[0]) < _ENOUGH_RUNS or len(band) < _ENOUGH_BEFORE:
        tolerance = max(tolerance, _UNKNOWN_NOISE)
    margin = _MARGIN * (max(band) - min(band))
    medians = [median(after[0]), median(list(chain(*after)))]
    if all(one > max(max(band) + margin, usual * (1 + tolerance)) for one in medians):
        return Verdict.SLOWER
    if all(one < min(min(band) - margin, usual / (1 + tolerance)) for one in medians):
        return Verdict.FASTER
    return None


def _band(times: Iterable[Sequence[float]]) -> list[float]:
    """Return all times of the last builds that have any."""
    return list(chain(*[some for some in times if some][-_BEFORE:]))

"""Detection of queries that became slower, while they are measured."""

from collections.abc import Sequence
from statistics import median

from beam_nexmark.record import QueryRun
from beam_nexmark.series import Point, build, series

CONFIRMATIONS = 2
"""Number of further runs that have to confirm a slowdown."""

_RECENT = 5
_LEAST_RECENT = 3
_LEAST_SECONDS = 0.3


def slowdown(past: Sequence[QueryRun], now: Sequence[QueryRun], tolerance: float) -> float | None:
    """Return the growth of the runtime of a query, as a fraction; None if it is no slowdown.

    It is one if the fastest of the runs takes longer than usual by more than the tolerance and by
    0.3 s, in seconds and in units of the machine's pace. Usual is the median over the last five
    builds under the same conditions; with fewer than three of them nothing is slower.

    Args:
        now: runs of a query on one build.
        tolerance: the maximum growth, as a fraction.
    """
    name = build(now[0])
    others = [run for run in past if run.query == now[0].query and build(run) != name]
    (one,) = [each for each in series([*others, *now]) if each.at(name)]
    recent = [point for point in one.points if point.times and point.build != name][-_RECENT:]
    last = Point(name, now)
    if len(recent) < _LEAST_RECENT or not last.times:
        return None
    usual = median(median(point.times) for point in recent)
    growths = [min(last.times) / usual - 1]
    paced = [median(point.paced) for point in recent if point.paced]
    if paced and last.paced:
        growths.append(min(last.paced) / median(paced) - 1)
    is_slower = min(growths) > tolerance and min(last.times) - usual > _LEAST_SECONDS
    return min(growths) if is_slower else None

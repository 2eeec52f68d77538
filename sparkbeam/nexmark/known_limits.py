"""What runners are known not to be able to do: such a run is told as that, and is no failure.

A limit is looked up when a run has failed, by what the runner said, or has given wrong results. So
a query that a newer version of the runner can run is not left out, and a failure of another kind is
one.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limit:
    """Something that a runner lacks.

    Attributes:
        runner: its class name.
        sign: a part of the error with which it ends then, or of what is said of its results.
        reason: what it lacks, on one line.
        query: of which query; None for whatever query ends with that error.
    """

    runner: str
    sign: str
    reason: str
    query: int | None = None


LIMITS = (
    Limit(
        "FnApiRunner",
        "'NoneType' object has no attribute 'time'",
        "it has no clock for triggers in processing time",
        query=12,
    ),
    Limit(
        "FnApiRunner",
        "but found 0 results",
        "it puts out nothing of a window whose trigger has not fired",
        query=11,
    ),
    Limit(
        "PrismRunner",
        '"WindowingStrategy.MergeStatus" set with value NEEDS_MERGE',
        "it merges no windows but sessions",
    ),
    Limit("PrismRunner", "features unimplemented in prism", "it lacks a feature, as it says"),
)
"""Those that are known. SparkRunner has none: where it fails, something is wrong."""


def limit_of(runner: str, query: int, failure: str) -> str | None:
    """What the runner lacks, if that is why a query failed; None if it is a failure.

    Args:
        runner: as a :class:`~sparkbeam.nexmark.record.Run` names it.
        query: its number.
        failure: why it failed, or what is wrong with its results.
    """
    for limit in LIMITS:
        if limit.runner == runner and limit.sign in failure and limit.query in (None, query):
            return limit.reason
    return None

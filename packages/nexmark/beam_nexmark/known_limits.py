"""Known limits of runners: a run that meets one is reported as such, and not as a failure.

A limit is looked up after a run has failed or returned wrong results, by its error. Thus a query
that a newer version of the runner supports is not skipped, and other failures remain failures.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limit:
    """A missing feature of a runner.

    Attributes:
        sign: a part of the resulting error, or of the description of wrong results.
        query: the affected query; None for any query with that error.
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
        "it emits nothing for a window whose trigger has not fired",
        query=11,
    ),
    Limit(
        "PrismRunner",
        '"WindowingStrategy.MergeStatus" set with value NEEDS_MERGE',
        "it merges no windows other than sessions",
    ),
    Limit("PrismRunner", "features unimplemented in prism", "it reports that it lacks a feature"),
)
"""Known limits. SparkRunner has none: each of its failures is an error."""


def limit_of(runner: str, query: int, failure: str) -> str | None:
    """Return the missing feature that explains the failure of a query; None if there is none.

    Args:
        runner: its name in a :class:`~beam_nexmark.record.QueryRun`.
        failure: the error, or the description of wrong results.
    """
    for limit in LIMITS:
        if limit.runner == runner and limit.sign in failure and limit.query in (None, query):
            return limit.reason
    return None

"""Verification of a query's result.

Count and digest must be those stored for the query and its configuration; if none are stored, those
of the reference simulator.
"""

from collections.abc import Callable, Iterable
from typing import Any

from beam_nexmark import expectations, result_digest
from beam_nexmark.configuration import Configuration
from beam_nexmark.queries import Query
from beam_nexmark.record import PASSED
from beam_nexmark.reference import reference_results
from beam_nexmark.result_digest import Difference, Summary
from sparkbeam.common.display_text import beginning

_SHOWN = 3
_CHARACTERS = 120


def verdict(
    query: Query,
    configuration: Configuration,
    found: Summary,
    answers: Callable[[Query], Iterable[Any]],
) -> str:
    """Return ``passed``, or the error and the first differing results on one line.

    Args:
        configuration: of generator and queries.
        answers: runs the query again for its weighted results.
    """
    stored = expectations.stored(query, configuration)
    if found == stored:
        return PASSED
    expected = list(reference_results(query, configuration))
    right = result_digest.summary(expected, query.weigh)
    if found == right:
        if stored is None:
            return PASSED
        return f"the reference simulator agrees, but {_results_text(stored)} are stored"
    difference = result_digest.difference(map(query.weigh, expected), answers(query), tuple, _SHOWN)
    return (
        f"{_results_text(right)} expected, but found {_results_text(found)}; {_shown(difference)}"
    )


def _results_text(summary: Summary) -> str:
    count, digest = summary
    return f"{count:,} results ({digest[:12]})"


def _shown(difference: Difference) -> str:
    if not difference:
        return "another run gave the right results"
    kinds = {"missing": difference.missing, "unexpected": difference.unexpected}
    return "; ".join(
        f"{kind}: {', '.join(beginning(text, _CHARACTERS) for text in texts)}"
        for kind, texts in kinds.items()
        if texts
    )

"""Verification of a query's result.

Count and digest must be those stored for the query and its configuration; if none are stored, those
of the reference simulator.

``expectations.json`` has them by configuration, named by the differences from the defaults of
:class:`~beam_nexmark.configuration.Configuration` and by the number of events::

    {"events=1000": {"0": [1000, "1f..."], "1": [920, "c3..."], ...}, ...}
"""

import json
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from beam_nexmark import result_digest
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
    expectation = stored(query, configuration)
    if found == expectation:
        return PASSED
    expected = list(reference_results(query, configuration))
    right = result_digest.summary(expected, query.weigh)
    if found == right:
        if expectation is None:
            return PASSED
        return f"the reference simulator agrees, but {_results_text(expectation)} are stored"
    difference = result_digest.difference(map(query.weigh, expected), answers(query), tuple, _SHOWN)
    return (
        f"{_results_text(right)} expected, but found {_results_text(found)}; {_shown(difference)}"
    )


def stored(query: Query, configuration: Configuration) -> Summary | None:
    """Return the expected summary of a query and its configuration; None if none is stored."""
    usual = Configuration().as_dict()
    name = ",".join(
        f"{name}={value}"
        for name, value in configuration.as_dict().items()
        if name == "events" or value != usual[name]
    )
    answer = _expectations().get(name, {}).get(str(query.number))
    return None if answer is None else Summary(*answer)


@cache
def _expectations() -> dict[str, dict[str, tuple[int, str]]]:
    text = files(__package__).joinpath("expectations.json").read_text(encoding="utf-8")
    answers: dict[str, dict[str, tuple[int, str]]] = json.loads(text)
    return answers


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

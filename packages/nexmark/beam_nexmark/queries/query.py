"""Definition of a query."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from beam_nexmark.configuration import Configuration


def once(result: Any) -> tuple[Any, int]:
    """Return the result itself with weight 1."""
    return result, 1


@dataclass(frozen=True)
class Query:
    """One query of Nexmark.

    Attributes:
        question: the question it answers, in a sentence.
        build: maps the events, Person, Auction and Bid, to the results.
        weigh: the part of a result to compare and its weight, for
            :class:`~beam_nexmark.result_digest.Summarize`. If panes depend on the clock, a
            result stands for the inputs that it counted, so that their sum is compared.
    """

    number: int
    name: str
    question: str
    build: Callable[[beam.PCollection[Any], Configuration], beam.PCollection[Any]]
    weigh: Callable[[Any], tuple[Any, int]] = once

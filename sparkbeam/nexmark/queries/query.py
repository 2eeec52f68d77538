"""What a query is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from sparkbeam.nexmark.configuration import Configuration


def once(result: Any) -> tuple[Any, int]:
    """The result itself, once."""
    return result, 1


@dataclass(frozen=True)
class Query:
    """One query of Nexmark.

    Attributes:
        number: its number in Beam's suite.
        name: what it does, in a few words.
        question: what it answers, in a sentence.
        build: from the events, Person, Auction and Bid, to the results.
        weigh: for :class:`~sparkbeam.nexmark.result_digest.Summarize`, what of a result to compare
            and how many times it counts. Where panes depend on the clock, a result stands for
            the inputs that it counted, so that their sum is what is compared.
    """

    number: int
    name: str
    question: str
    build: Callable[[beam.PCollection[Any], Configuration], beam.PCollection[Any]]
    weigh: Callable[[Any], tuple[Any, int]] = once

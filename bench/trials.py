"""Trials of programs that look for differences: their options, their loop and their table."""

import argparse
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import NoReturn

from rich.console import Console
from rich.table import Table


def options(description: str | None) -> argparse.ArgumentParser:
    """Return the parser of the options of all of them."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of the one trial to run")
    return parser


def run(
    given: argparse.Namespace,
    trial: Callable[[int], str | None],
    figures: Callable[[], Mapping[str, int]],
) -> NoReturn:
    """Run trials until the time is over, print differences and a table, and end the program.

    Args:
        given: the parsed options.
        trial: runs the trial of a number, and returns what differs, if anything does.
        figures: returns the rows of the table, at the end.
    """
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    console, differences = Console(), 0
    for number in _numbers(given.minutes, given.only):
        found = trial(number)
        if found is not None:
            differences += 1
            head = f"\nDifference {differences}: --seed {given.seed} --only {number}"
            console.print(f"{head}\n{found}", markup=False, highlight=False, soft_wrap=True)
    table = Table("", f"seed {given.seed}, {given.minutes:g} minutes")
    for name, total in {**figures(), "differences": differences}.items():
        table.add_row(name, f"{total:,}")
    console.print(table)
    sys.exit(bool(differences))


def _numbers(minutes: float, only: int | None) -> Iterator[int]:
    if only is not None:
        yield only
        return
    deadline = time.monotonic() + 60 * minutes
    for number in count():
        if time.monotonic() > deadline:
            return
        yield number

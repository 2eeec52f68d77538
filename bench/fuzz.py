"""Functions and pipelines that nobody has thought of: do columns change what comes out?

Run with ``python bench/fuzz.py --minutes 60 --seed 7``. Random functions of the compiled subset are
compared over random blocks, in all forms in which Arrow may hold their values, with calling them;
random pipelines, of steps, windows and combines, with the same pipelines under ``--columns=off``,
and each tenth one with Beam's FnApiRunner. All run in this process, without a JVM. Each difference
is printed as a function or pipeline and elements, as few as still differ, and ``--only NUMBER``
with the same seed runs that trial alone. Ends with 1 if there is any.
"""

import argparse
import logging
import sys
import time
import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "columns"))

from fuzzedpipelines import try_pipeline
from fuzzing import Figures, try_function

_FUNCTIONS = 30
"""Of so many trials one is a pipeline."""
_SAMPLED = 10
"""Of so many pipelines one runs on Beam's runner, too."""

ROWS = {
    "functions": "functions made",
    "compiled": "of them compiled",
    "blocks": "blocks compared with calling a function",
    "refused": "blocks refused",
    "pipelines": "pipelines compared with --columns=off",
    "evaluated": "blocks of columns that their steps have taken",
    "combines": "of them with a combine",
    "failed": "of them that fail either way",
    "other_runners": "of them compared with Beam's FnApiRunner",
}


def trial(seed: int, number: int, figures: Figures) -> str | None:
    """One trial, which depends on its number and the seed alone; what differs, if it does."""
    random = Random(f"{seed}-{number}")
    if number % _FUNCTIONS:
        return try_function(random, figures)
    is_sampled = number // _FUNCTIONS % _SAMPLED == 0
    return try_pipeline(random, figures, is_sampled=is_sampled)


def numbers(minutes: float, only: int | None) -> Iterator[int]:
    """Those of the trials."""
    if only is not None:
        yield only
        return
    deadline = time.monotonic() + 60 * minutes
    for number in count():
        if time.monotonic() > deadline:
            return
        yield number


def main() -> None:
    """Tries functions and pipelines, and prints differences and the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of the one trial to run")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    console, figures, differences = Console(), Figures(), 0
    for number in numbers(args.minutes, args.only):
        found = trial(args.seed, number, figures)
        if found is not None:
            differences += 1
            head = f"\nDifference {differences}: --seed {args.seed} --only {number}"
            console.print(f"{head}\n{found}", markup=False, highlight=False, soft_wrap=True)
    table = Table("", f"seed {args.seed}, {args.minutes:g} minutes")
    for name, words in ROWS.items():
        table.add_row(words, f"{getattr(figures, name):,}")
    table.add_row("differences", str(differences))
    console.print(table)
    sys.exit(bool(differences))


if __name__ == "__main__":
    main()

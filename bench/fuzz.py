"""Functions and pipelines that nobody has thought of: do columns change what comes out?

Run with ``python bench/fuzz.py --minutes 60 --seed 7``. Random functions of the compiled subset are
compared over random blocks, in all forms in which Arrow may hold their values, with calling them;
random pipelines, of steps, windows and combines, with the same pipelines under ``--columns=off``,
and each tenth one with Beam's FnApiRunner. All run in this process, without a JVM. Each difference
is printed as a function or pipeline and elements, as few as still differ, and ``--only NUMBER``
with the same seed runs that trial alone. Ends with 1 if there is any.
"""

import sys
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "columns"))

import trials
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


def main() -> None:
    """Tries functions and pipelines."""
    given, figures = trials.options(__doc__).parse_args(), Figures()
    trials.run(
        given,
        lambda number: trial(given.seed, number, figures),
        lambda: {words: getattr(figures, name) for name, words in ROWS.items()},
    )


if __name__ == "__main__":
    main()

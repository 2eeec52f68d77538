"""Histories over many commits, with noise and with what is planted in them."""

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import blake2b

from runs import a_run

from beam_nexmark.record import PASSED, QueryRun

COMMITS = [blake2b(bytes([number]), digest_size=20).hexdigest() for number in range(20)]
"""Commits in their order."""

SHORT = [commit[:7] for commit in COMMITS]
"""The builds of the commits."""

Plant = Callable[[QueryRun, int], QueryRun]
"""What becomes of a run of the commit with a number."""


def a_past(
    seed: int = 0,
    *,
    noise: float = 0.05,
    queries: Iterable[int] = range(17),
    commits: int = 12,
    repeats: int = 3,
    plant: Plant = lambda run, _: run,
    **common: object,
) -> list[QueryRun]:
    """Runs of queries over commits; times vary with normal noise, a share of them."""
    chance = random.Random(seed)
    return [
        plant(
            a_run(
                **{
                    "query": query,
                    "name": "what it does in words",
                    "revision": COMMITS[number],
                    "machine": "a machine",
                    "started": f"2026-01-{number + 1:02}T03:04:05+00:00",
                    "repeat": repeat + 1,
                    "seconds": (1 + query / 4) * (1 + chance.gauss(0, noise)),
                    "checked": PASSED,
                    **common,
                }
            ),
            number,
        )
        for query in queries
        for number in range(commits)
        for repeat in range(repeats)
    ]


def planted(run: QueryRun, number: int) -> QueryRun:
    """Four changes: q6 slower at 7, q2 twice as fast at 8, q12 wrong at 9, q3 fails at 5 and 6."""
    seconds = run.seconds or 0
    match run.query:
        case 6 if number >= 7:
            return replace(run, seconds=seconds * 1.38)
        case 2 if number >= 8:
            return replace(run, seconds=seconds / 2)
        case 12 if number >= 9:
            return replace(run, results=7, checked="580 results expected, but found 7")
        case 3 if number in (5, 6):
            return replace(run, seconds=None, results=None, digest=None, failure="ValueError: no")
    return run

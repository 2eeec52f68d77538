"""How well changes of Nexmark over commits are told from noise: found and false ones.

    python bench/changes.py

Histories of twelve commits with three repeats each and normal noise, as ``pasts.py`` makes them:
some in which a query gets slower by a share at the eighth commit, and others of noise alone. Prints
how many of the slowdowns were flagged at that commit and nowhere else, and how many commits were
flagged for nothing.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "packages" / "nexmark" / "tests"))
from pasts import SHORT, a_past

from beam_nexmark.changes import Change, Verdict, changes
from beam_nexmark.record import QueryRun
from beam_nexmark.series import series

AT = 7
_QUIET_SEEDS = 10_000


def flagged(runs: list[QueryRun]) -> list[Change]:
    """All changes of a history."""
    return [change for one in series(runs) for change in changes(one)]


def found(seed: int, growth: float, noise: float) -> bool:
    """Whether exactly the slowdown of a history is flagged."""

    def slower(run: QueryRun, number: int) -> QueryRun:
        return replace(run, seconds=(run.seconds or 0) * (1 + growth)) if number >= AT else run

    changed = flagged(a_past(seed, noise=noise, queries=[6], plant=slower))
    return [(one.verdict, one.point.build) for one in changed] == [(Verdict.SLOWER, SHORT[AT])]


def main() -> None:
    """Prints two lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--histories", type=int, default=1000, help="with a slowdown")
    parser.add_argument("--quiet", type=int, default=170, help="of noise, with 17 queries each")
    parser.add_argument("--growth", type=float, default=0.3)
    parser.add_argument("--noise", type=float, default=0.05)
    given = parser.parse_args()
    hits = sum(found(seed, given.growth, given.noise) for seed in range(given.histories))
    print(f"{hits:,} of {given.histories:,} slowdowns by {given.growth:.0%} found")
    pasts = [a_past(_QUIET_SEEDS + seed, noise=given.noise) for seed in range(given.quiet)]
    builds = sum(len(one.points) for runs in pasts for one in series(runs))
    false = sum(len(flagged(runs)) for runs in pasts)
    print(f"{false:,} of {builds:,} commits flagged for nothing")


if __name__ == "__main__":
    main()

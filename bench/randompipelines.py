"""Pipelines made at random: does a streaming query find what the same pipeline finds in batch?

Run with ``python bench/randompipelines.py --minutes 10 --seed 1``. No JVM is needed: both run in
process, over the stand-ins for Spark of the tests, which give the rows of each shuffle in another
order each time; some queries run each micro-batch twice, some crash at places chosen at random and
go on from their checkpoint. Beam's own runner is a third witness of a part. See
``tests/random_pipelines.py`` for what the pipelines are made of, ``tests/random_panes.py`` for
triggers and late elements, of which it is known what has to come out, and
``tests/random_aggregations.py`` for combines and groups of rows in columns, whose references are
plain Python and Beam's trigger driver.

With ``--master "local[2]"`` or ``--connect "local[2]"`` the queries run on a session of Spark,
without crashes and repetitions, some seconds each.

Each difference is made smaller and printed with a program that shows it, and ``--only NUMBER`` with
the same seed runs that pipeline alone. Ends with 1 if there was one.
"""

import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import random_runs
import trials
from random_aggregations import Aggregations, aggregations
from random_cases import case
from random_panes import panes
from random_pipelines import Case, elements
from random_runs import Trial

from sparkbeam import SparkBeamOptions
from sparkbeam.spark import session as sessions

REPRODUCTION = """\
cd tests; PYTHONPATH=..:. python - <<'END'
from math import inf, nan
from apache_beam import Row
from random_aggregations import *
from random_combines import *
from random_panes import *
from random_pipelines import *
from random_runs import *
print(Trial({case!r}, {way!r}, beams={beams}).problem())
END"""


def trial(seed: str, spark: Any) -> Trial:
    """The pipeline with a number, and how it runs."""
    chance = random.Random(seed)
    kinds: list[Callable[[random.Random], Any]] = [case, panes, aggregations]
    (make,) = chance.choices(kinds, [5, 2, 2 if spark is None else 0])
    made = make(chance)
    way = random_runs.how(chance)
    if spark is not None:
        way = replace(way, attempts=1, crashes=0)
    return Trial(made, way, beams=chance.random() < 0.2, spark=spark)


def session(master: str | None, connect: str | None) -> Any:
    """The session that was asked for, if one was."""
    if master is None and connect is None:
        return None
    # A server of Spark Connect imports the steps of the pipelines, too.
    os.environ["PYTHONPATH"] = str(Path(random_runs.__file__).parent)
    where = f"--spark_connect={connect}" if connect else f"--spark_master={master}"
    return sessions.obtain(SparkBeamOptions([where, "--spark_conf=spark.sql.shuffle.partitions=2"]))


def counted(one: Trial) -> Counter[str]:
    """Figures of a trial."""
    made = one.case
    figures = Counter({"pipelines": 1})
    if isinstance(made, Case):
        timelines = made.timelines
        figures["steps"] = len(made.steps)
        figures.update(f"steps: {type(step).__name__}" for step in made.steps)
        figures["also on Beam's own runner"] = one.beams and made.is_for_all
    elif isinstance(made, Aggregations):
        timelines = ()
        figures["elements"] = sum(map(len, made.blocks))
        figures.update(f"aggregation: {name}" for name in made.combines)
    else:
        timelines = (made.timeline,)
        figures[f"trigger: {made.trigger}"] = 1
        figures["elements too late"] = made.arriving(late=True)[1]
    figures["elements"] += sum(len(elements(timeline)) for timeline in timelines)
    figures["each micro-batch twice"] = one.way.attempts > 1
    figures["crashes"] = one.crashes
    return figures


def difference(one: Trial) -> str | None:
    """Return the difference of a smaller trial, and a program that shows it; None without one."""
    problem = one.problem()
    if not problem:
        return None
    less = one.smallest()
    shown = REPRODUCTION.format(case=less.case, way=less.way, beams=less.beams)
    return f"{problem}\n{less.problem()}\n{shown}"


def main() -> None:
    """Runs pipelines until the time is over, or the one that was asked for."""
    parser = trials.options(__doc__)
    parser.add_argument("--master", help="of Spark, such as local[2]")
    parser.add_argument("--connect", help="a server of Spark Connect, or local[2]")
    given = parser.parse_args()
    figures: Counter[str] = Counter()
    spark = session(given.master, given.connect)

    def run(number: int) -> str | None:
        one = trial(f"{given.seed}-{number}", spark)
        found = difference(one)
        figures.update(counted(one))
        return found

    trials.run(
        given,
        run,
        lambda: dict(sorted(figures.items(), key=lambda item: (":" in item[0], item[0]))),
    )


if __name__ == "__main__":
    main()

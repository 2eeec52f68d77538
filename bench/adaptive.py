"""Adaptive execution as people show it: three pipelines, each without it and with it.

Run with ``python bench/adaptive.py``. A grouping over 200 partitions of which few have much to do;
a join of which half of the elements have one key; and a join of which a side turns out to be small.
In one session on two cores; bounds are a hundredth of Spark's, so that a run takes seconds. What
became of the partitions and of the join is what ``result.explain()`` tells; beside it are the
seconds, and how long the tasks behind the shuffle took: the longest one over the one in the middle.
"""

import argparse
import logging
import re
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

import apache_beam as beam
from skew import CORES, made, run, task_times

from sparkbeam import Join
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.spark import session

SHARES, KEYS, HOT = 16, 1000, 7
SETTINGS = {
    "spark.sql.shuffle.partitions": "200",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "640k",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "2560k",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "5",
    "spark.sql.autoBroadcastJoinThreshold": "100k",
}

Pairs = Callable[[int], Iterator[tuple[int, str]]]


def pairs(count: int, *, hot: bool) -> Pairs:
    """Makes a share of pairs: key and incompressible text; half of them on one key."""

    def make(share: int) -> Iterator[tuple[int, str]]:
        for number in range(share, count, SHARES):
            text = blake2b(b"%d" % number, digest_size=24).hexdigest()
            key = HOT if hot and text < "8" else int(text[:8], 16) % KEYS
            yield key, text

    return make


def grouped(p: Any, count: int) -> Any:
    """All pairs by their keys."""
    groups = made(p, "pairs", pairs(count, hot=False)) | beam.GroupByKey()
    return groups | "Sizes" >> beam.MapTuple(lambda key, group: len(list(group)))


def skewed(p: Any, count: int) -> Any:
    """Pairs of which half have one key, with those of all keys."""
    sides = {
        "left": made(p, "left", pairs(count, hot=True)),
        "right": made(p, "right", pairs(KEYS * 5, hot=False)),
    }
    on = dict.fromkeys(sides, lambda pair: pair[0])
    return sides | Join(on=on, broadcast="never", result=lambda key, left, right: 1)


def filtered(p: Any, count: int) -> Any:
    """Pairs with others of which next to none are left."""
    right = made(p, "right", pairs(count, hot=False))
    sides = {
        "left": made(p, "left", pairs(count, hot=False)),
        "right": right | "Few" >> beam.Filter(lambda pair: pair[1] < "001"),
    }
    on = dict.fromkeys(sides, lambda pair: pair[0])
    return sides | Join(on=on, result=lambda key, left, right: 1)


RUNS: dict[str, tuple[Callable[[Any, int], Any], bool]] = {
    "200 partitions": (grouped, False),
    "A skewed join": (skewed, True),
    "Sort-merge to broadcast": (filtered, True),
}
"""What each run is called, what builds it, and whether it is a join."""


def told(result: Any, *, joins: bool) -> list[str]:
    """What became of the partitions and of the join."""
    explanation = result.explain()
    if joins:
        return str(explanation.joins).splitlines()[1:]
    lines = str(explanation.stages).splitlines()
    first, behind = (
        next(number for number, line in enumerate(lines) if f" {name} " in line)
        for name in ("parts", "group")
    )
    return lines[first:behind]


def main() -> None:
    """Makes all runs and prints what became of each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--elements", type=int, default=200_000)
    parser.add_argument("--only", default="", help="a pattern of names")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    settings = [f"--spark_conf={name}={value}" for name, value in SETTINGS.items()]
    spark = session.obtain(SparkBeamOptions([f"--spark_master=local[{CORES}]", *settings]))
    run(spark, grouped, 1000)
    chosen = {name: one for name, one in RUNS.items() if re.search(arguments.only, name)}
    for name, (build, joins) in chosen.items():
        for adaptive in (False, True):
            spark.conf.set("spark.sql.adaptive.enabled", str(adaptive).lower())
            seconds, result = run(spark, build, arguments.elements)
            print(f"\n{name}, adaptive execution {'on' if adaptive else 'off'}: {seconds:.1f} s")
            print("\n".join(told(result, joins=joins)))
            if joins:
                print(f"    tasks  longest / median: {task_times(spark, result)} s")


if __name__ == "__main__":
    main()

"""Small pipelines over Spark Connect, beside Beam's FnApiRunner.

    python bench/smalljobs.py
    python bench/smalljobs.py --turns 7 --partitions 200 --profile

A Spark Connect server runs in a process of its own, with Spark's default of 200 partitions for a
shuffle, as the servers of others do. Each pipeline has some fifty elements and runs on both runners
in turn, after one run on each that does not count. The table has the medians by the clock, their
ratio, and for Spark the tasks of a run and the files that it has written.
"""

import argparse
import cProfile
import os
import pstats
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

import sparkbeam

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from connect_server import ConnectServer

_ROWS = 50


def keyed(pipeline: beam.Pipeline, label: str) -> Any:
    """Return fifty pairs of a pipeline."""
    numbers = pipeline | label >> beam.Create(range(_ROWS))
    return numbers | f"Key {label}" >> beam.Map(lambda number: (f"k{number % 10}", number))


def join(pipeline: beam.Pipeline, out: str, by: Callable[[], Any] = beam.CoGroupByKey) -> None:
    """Join two PCollections."""
    sides = keyed(pipeline, "left"), keyed(pipeline, "right")
    joined = sides | by() | beam.Map(str)
    _ = joined | beam.io.WriteToText(out)


def sums(pipeline: beam.Pipeline, out: str) -> None:
    """Add numbers up by key."""
    _ = (
        keyed(pipeline, "pairs")
        | beam.CombinePerKey(sum)
        | beam.Map(str)
        | beam.io.WriteToText(out)
    )


def groups(pipeline: beam.Pipeline, out: str) -> None:
    """Group by key twice, with a Reshuffle between."""
    first = keyed(pipeline, "pairs") | beam.GroupByKey() | beam.Reshuffle()
    sizes = first | beam.MapTuple(lambda _, group: (len(list(group)), 1))
    _ = sizes | "again" >> beam.GroupByKey() | beam.Map(str) | beam.io.WriteToText(out)


PIPELINES: dict[str, Callable[[beam.Pipeline, str], None]] = {
    "CoGroupByKey": join,
    "CombinePerKey": sums,
    "two groupings": groups,
    "sparkbeam.Join": partial(join, by=partial(sparkbeam.Join, on=itemgetter(0))),
}


def run(name: str, runner: str, *options: str) -> tuple[float, int, int]:
    """Run a pipeline; return its seconds, its tasks, and the files that it has written."""
    with tempfile.TemporaryDirectory(prefix="smalljobs-out-") as folder:
        start = time.perf_counter()
        pipeline = beam.Pipeline(runner, options=PipelineOptions([*options]))
        PIPELINES[name](pipeline, f"{folder}/out")
        result: Any = pipeline.run()
        result.wait_until_finish()
        seconds = time.perf_counter() - start
        tasks = sum(stage.tasks for stage in result.summary().stages) if options else 0
        return seconds, tasks, len(os.listdir(folder))


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--only", choices=PIPELINES, action="append")
    parser.add_argument("--profile", action="store_true", help="show where the driver waits")
    given = parser.parse_args()
    sys.argv[1:] = []
    conf = {"spark.sql.shuffle.partitions": str(given.partitions)}
    with tempfile.TemporaryDirectory() as folder, ConnectServer(Path(folder), conf=conf) as server:
        ours = "sparkbeam.SparkRunner", f"--spark_connect={server.url}"
        print("pipeline          FnApiRunner s  SparkRunner s  times  tasks  files", flush=True)
        for name in given.only or PIPELINES:
            for runner in (["FnApiRunner"], ours):
                run(name, *runner)
            turns = [(run(name, "FnApiRunner"), run(name, *ours)) for _ in range(given.turns)]
            theirs, own = (
                statistics.median(run[0] for run in runs) for runs in zip(*turns, strict=True)
            )
            _, tasks, files = turns[-1][1]
            figures = f"{theirs:13.2f}  {own:13.2f}  {own / theirs:5.1f}  {tasks:5}  {files:5}"
            print(f"{name:16}  {figures}", flush=True)
            if given.profile:
                profile = cProfile.Profile()
                profile.runcall(run, name, *ours)
                pstats.Stats(profile).sort_stats("cumulative").print_stats(35)


if __name__ == "__main__":
    main()

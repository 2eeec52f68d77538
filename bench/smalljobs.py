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
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyspark
from apache_beam.options.pipeline_options import PipelineOptions

import sparkbeam

_START = Path(pyspark.__file__).parent / "sbin" / "start-connect-server.sh"
_ROWS = 50
_PATIENCE = 150


def keyed(pipeline: beam.Pipeline, label: str) -> Any:
    """Return fifty pairs of a pipeline."""
    numbers = pipeline | label >> beam.Create(range(_ROWS))
    return numbers | f"Key {label}" >> beam.Map(lambda number: (f"k{number % 10}", number))


def join(pipeline: beam.Pipeline, out: str) -> None:
    """Join two PCollections with CoGroupByKey."""
    sides = keyed(pipeline, "left"), keyed(pipeline, "right")
    joined = sides | beam.CoGroupByKey() | beam.Map(str)
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


def own_join(pipeline: beam.Pipeline, out: str) -> None:
    """Join two PCollections with sparkbeam.Join, which other runners have as CoGroupByKey."""
    sides = keyed(pipeline, "left"), keyed(pipeline, "right")
    joined = sides | sparkbeam.Join(on=itemgetter(0)) | beam.Map(str)
    _ = joined | beam.io.WriteToText(out)


PIPELINES: dict[str, Callable[[beam.Pipeline, str], None]] = {
    "CoGroupByKey": join,
    "CombinePerKey": sums,
    "two groupings": groups,
    "sparkbeam.Join": own_join,
}


@contextmanager
def server(partitions: int, cores: int) -> Iterator[str]:
    """Run a Spark Connect server; yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": partitions,
        "spark.ui.enabled": "false",
    }
    with tempfile.TemporaryDirectory(prefix="smalljobs-") as folder:
        with Path(folder, "log").open("wb") as log:
            process = subprocess.Popen(
                [
                    "bash", str(_START), "--wait", f"--master=local[{cores}]",
                    *(f"--conf={key}={value}" for key, value in settings.items()),
                ],
                cwd=folder,
                env={
                    **os.environ,
                    "PYSPARK_PYTHON": sys.executable,
                    "SPARK_LOG_DIR": folder,
                    "SPARK_PID_DIR": folder,
                },
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        try:
            deadline = time.monotonic() + _PATIENCE
            while not _answers(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(Path(folder, "log").read_text())
                time.sleep(0.2)
            yield f"sc://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


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
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only", choices=PIPELINES, action="append")
    parser.add_argument("--profile", action="store_true", help="show where the driver waits")
    given = parser.parse_args()
    sys.argv[1:] = []
    names = given.only or [*PIPELINES]
    with server(given.partitions, given.cores) as url:
        ours = "sparkbeam.SparkRunner", f"--spark_connect={url}"
        print("pipeline          FnApiRunner s  SparkRunner s  times  tasks  files", flush=True)
        for name in names:
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

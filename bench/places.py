"""The session of a benchmark: on two local cores, on a cluster of two machines, over Connect."""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.spark import session

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cluster"))

from standalone import Cluster

PLACES = ("local", "cluster", "connect")
CORES = 2
MEMORY_MB = 3072


def add_place(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--on``."""
    parser.add_argument(
        "--on",
        choices=PLACES,
        default="local",
        help="where Spark runs: in this process's JVM with two cores, on a standalone cluster of "
        "two workers with a core each, or behind a Spark Connect server with two cores; "
        "default: %(default)s",
    )


@contextmanager
def place_options(place: str) -> Iterator[list[str]]:
    """Prepare a place.

    Yields:
        The options of a pipeline that runs there.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    match place:
        case "cluster":
            with Cluster(CORES, memory_mb=MEMORY_MB) as cluster:
                own = ("spark.driver.memory=1g", f"spark.executor.memory={MEMORY_MB}m")
                yield [*cluster.options(), *(f"--spark_conf={setting}" for setting in own)]
        case "connect":
            yield [f"--spark_connect=local[{CORES}]"]
        case _:
            yield [f"--spark_master=local[{CORES}]"]


@contextmanager
def session_on(place: str) -> Iterator[Any]:
    """Start Spark at a place, and stop it in the end.

    Yields:
        The session.
    """
    with place_options(place) as options:
        spark = session.obtain(SparkBeamOptions(options))
        try:
            yield spark
        finally:
            spark.stop()

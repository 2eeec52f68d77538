"""Streaming on a cluster that has a hard time: does the output stay exact, and what does it cost?

Run with ``python bench/hardship.py`` as root. The chained stateful steps of ``bench/crash.py`` run
on a standalone cluster of two workers on this machine, once for each hardship: none (to compare);
speculative copies of tasks, with Python workers that stand still; Python workers that the kernel
kills for want of memory; a disk without room under the checkpoint; 100 shards. Ends with 1 if an
output is not that of a plain evaluation in Python.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cluster"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cluster" / "drivers"))

from killing import DISK, MEMORY, PROGRAMS, STALL, Killing
from standalone import Cluster

_DISK = "size=64m"
_SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "200ms",
}


@dataclass(frozen=True)
class Hardship:
    """What a pipeline has to stand.

    Attributes:
        name: in words.
        harm: what is done to it, one after the other.
        options: of the pipeline.
        on_small_disk: checkpoint and output are on a file system that can be filled.
    """

    name: str
    harm: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    on_small_disk: bool = False


HARDSHIPS = {
    "nothing": Hardship("nothing"),
    "speculation": Hardship(
        "speculative tasks, workers that stall",
        (STALL, STALL, STALL),
        tuple(f"--spark_conf={key}={value}" for key, value in _SPECULATION.items()),
    ),
    "memory": Hardship("workers killed for memory", (MEMORY,) * 5),
    "disk": Hardship("a full disk", (DISK, DISK), on_small_disk=True),
    "shards": Hardship("100 shards", options=("--shards=100",)),
}


@contextmanager
def place(hardship: Hardship) -> Iterator[Path]:
    """A folder for checkpoint, output and events of Spark, on a small file system or not."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if hardship.on_small_disk:
            subprocess.run(["mount", "-t", "tmpfs", "-o", _DISK, "tmpfs", folder], check=True)
        try:
            yield Path(folder)
        finally:
            if hardship.on_small_disk:
                subprocess.run(["umount", "--lazy", folder], check=True)


def speculative_tasks(events: Path) -> int:
    """How many copies of tasks Spark has started, by its event log."""
    return sum(
        line.count('"Speculative":true')
        for file in events.rglob("*")
        if file.is_file()
        for line in file.read_text(errors="replace").splitlines()
        if line.startswith('{"Event":"SparkListenerTaskStart"')
    )


def endured(hardship: Hardship, arguments: argparse.Namespace) -> tuple[bool, list[str]]:
    """Whether the output is exact, and a row of the table."""
    with (
        Cluster(workers=2) as cluster,
        place(hardship) as folder,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as events,
    ):
        log = (
            "--spark_conf=spark.eventLog.enabled=true",
            f"--spark_conf=spark.eventLog.dir=file://{events}",
        )
        began = time.monotonic()
        killing = Killing(
            PROGRAMS["chained"],
            folder,
            [*cluster.options(), *hardship.options, *log],
            events=arguments.events,
            rate=arguments.rate,
            seconds=arguments.seconds,
        )
        with killing:
            done = killing.run([(kind, 1.0) for kind in hardship.harm], random.Random(1))
        seconds = time.monotonic() - began
        missing, unexpected = killing.differences()
        copies = speculative_tasks(Path(events))
        micro_batches = killing.committed() + 1
    exact = not missing and not unexpected and len(done) == len(hardship.harm)
    row = [
        hardship.name,
        "yes" if exact else f"{missing.total()} missing, {unexpected.total()} too many",
        f"{len(done)} of {len(hardship.harm)}",
        str(sum(kill.restarts for kill in done)),
        str(sum(kill.reruns for kill in done)),
        str(copies),
        str(micro_batches),
        f"{seconds:.0f}",
    ]
    return exact, row


def main() -> None:
    """Goes through all hardships and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=8_000)
    parser.add_argument("--rate", type=float, default=400.0, help="events a second")
    parser.add_argument("--seconds", type=float, default=900.0, help="the longest time of each")
    parser.add_argument("--only", default=",".join(HARDSHIPS), help="which; default: %(default)s")
    arguments = parser.parse_args()
    columns = "hardship", "exact", "harm", "new starts", "reruns", "speculative", "batches", "s"
    table = Table(*columns)
    right = True
    for name in arguments.only.split(","):
        exact, row = endured(HARDSHIPS[name], arguments)
        table.add_row(*row)
        print(*row, sep=" | ", flush=True)
        right = right and exact
    Console(width=120).print(table)
    if not right:
        sys.exit("An output is not exact.")


if __name__ == "__main__":
    main()

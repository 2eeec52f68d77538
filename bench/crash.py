"""Streaming on a cluster whose processes are killed at random moments.

Run with ``python bench/crash.py --kills 20 --seed 1``. A pipeline with three chained stateful steps
and timers runs on a standalone cluster of real processes on this machine. Its driver, with the
JVM, the executors and their Python workers are killed at random; the driver is started again
over its checkpoint whenever it has died. The output has to be that of a run without kills.
Ends with 1 if it is not, or if the stream ended before the last kill.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cluster"))

from killing import KINDS, Kill, Killing
from standalone import Cluster

_KILLS_EVERY = (0.5, 6.0)
"""A kill comes this many seconds after a micro-batch was committed."""


def show(kills: list[Kill]) -> None:
    """Prints a row for each kill."""
    table = Table("kill", "what", "at, s", "micro-batch", "going again after, s", "by")
    for number, kill in enumerate(kills, start=1):
        back = "it had ended" if kill.back is None else f"{kill.back:.1f}"
        by = "a new start" if kill.restarts else "the runner" if kill.reruns else "Spark"
        cells = (number, kill.kind, f"{kill.second:.0f}", kill.batch, back, by)
        table.add_row(*map(str, cells))
    Console(width=100).print(table)


def main() -> None:
    """Runs the pipeline to its end and judges the output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", type=int, default=16_000)
    parser.add_argument("--rate", type=float, default=200.0, help="events a second")
    parser.add_argument("--seconds", type=float, default=3600.0, help="the longest time in all")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    plan = [(chance.choice(KINDS), chance.uniform(*_KILLS_EVERY)) for _ in range(arguments.kills)]
    with Cluster(workers=2) as cluster, tempfile.TemporaryDirectory() as folder:
        program = Killing(
            Path(folder),
            cluster.options(),
            events=arguments.events,
            rate=arguments.rate,
            seconds=arguments.seconds,
        )
        with program:
            kills = program.run(plan, chance)
        missing, unexpected = program.differences()
        micro_batches = program.committed() + 1
    show(kills)
    print(f"{arguments.events} events, {micro_batches} micro-batches, {len(kills)} kills")
    print(f"Rows that are missing: {missing.total()}; too many: {unexpected.total()}")
    if missing or unexpected:
        sys.exit("The output differs from that of a run without kills.")
    if len(kills) < arguments.kills:
        sys.exit("The stream ended too early: give more --events.")
    print("The output is that of a run without kills.")


if __name__ == "__main__":
    main()

"""Streaming on a cluster whose processes are killed at random moments.

Run with ``python bench/crash.py --kills 100 --seed 1``. Pipelines run one after the other on a
standalone cluster of real processes on this machine: chained stateful steps into Parquet files,
sessions with early and late firings into a join and a Delta table, ordered list state and sorted
multimaps into SQLite, sessions into files beside a stateful DoFn with timers into SQLite.
Driver with JVM, executors and Python workers are killed at random; the driver is started again
over its checkpoint whenever it has died. The output has to be that of a run without kills.
Ends with 1 if it is not, or if a stream ended before its last kill.
"""

import argparse
import random
import statistics
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cluster"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cluster" / "drivers"))

from killing import KINDS, PROGRAMS, Kill, Killing
from standalone import Cluster
from watching import Watching

_KILLS_EVERY = (0.5, 6.0)
"""A kill comes this many seconds after a micro-batch was committed."""


def tell(kill: Kill) -> None:
    """Prints what a kill has come to."""
    back = "it had ended" if kill.back is None else f"going again after {kill.back:.1f} s"
    by = "a new start" if kill.restarts else "the runner" if kill.reruns else "Spark"
    print(
        f"{kill.second:.0f} s: {kill.kind}, micro-batch {kill.batch}: {back}, by {by}", flush=True
    )


def show(kills: list[Kill]) -> None:
    """Prints a line for each kind of kill."""
    for kind in KINDS:
        times = [kill.back for kill in kills if kill.kind == kind and kill.back is not None]
        if times:
            least, middle, most = min(times), statistics.median(times), max(times)
            print(
                f"{kind}: {len(times)} kills, going again after {least:.1f} to {most:.1f} s, ",
                end="",
            )
            print(f"median {middle:.1f} s")


def killed(program: str, kills: int, chance: random.Random, arguments: argparse.Namespace) -> bool:
    """Runs a pipeline to its end; tells whether its output is right and all kills took place."""
    plan = [(chance.choice(KINDS), chance.uniform(*_KILLS_EVERY)) for _ in range(kills)]
    with Cluster(workers=2) as cluster, tempfile.TemporaryDirectory() as folder:
        killing = Killing(
            PROGRAMS[program],
            Path(folder),
            cluster.options(),
            events=arguments.events,
            rate=arguments.rate,
            seconds=arguments.seconds,
        )
        reader = Watching(killing.output)
        with killing, reader if program == "chained" else nullcontext():
            done = killing.run(plan, chance, tell)
        missing, unexpected = killing.differences()
        micro_batches = killing.committed() + 1
    show(done)
    print(f"{program}: {arguments.events} events, {micro_batches} micro-batches, {len(done)} kills")
    print(f"Rows that are missing: {missing.total()}; too many: {unexpected.total()}", flush=True)
    print(f"A reader of the files: {reader.polls} polls, {len(reader.problems)} problems")
    if len(done) < kills:
        print("The stream ended too early: give more --events.")
    return not (missing or unexpected or reader.problems) and len(done) == kills


def main() -> None:
    """Runs the pipelines and judges their outputs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="of all pipelines together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", type=int, default=16_000, help="of each pipeline")
    parser.add_argument("--rate", type=float, default=200.0, help="events a second")
    parser.add_argument("--seconds", type=float, default=7200.0, help="the longest time of each")
    parser.add_argument(
        "--programs", default=",".join(PROGRAMS), help="which; default: %(default)s"
    )
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    programs = arguments.programs.split(",")
    right = True
    for place, program in enumerate(programs):
        kills = arguments.kills // len(programs) + (place < arguments.kills % len(programs))
        right = killed(program, kills, chance, arguments) and right
    if not right:
        sys.exit("An output differs from that of a run without kills, or a stream was too short.")
    print("All outputs are those of runs without kills.")


if __name__ == "__main__":
    main()

"""A pipeline over event hubs on a cluster whose processes are killed at random moments.

Run with ``python bench/hubcluster.py --kills 25 --seed 1``. ReadFromEventHubs goes to
WriteToEventHubs and to Parquet files on a standalone cluster of real processes on this machine,
over 4 partitions of a server in another process, which gets events at a rate all the while. Driver
with JVM, executors and Python workers are killed at random, a driver in one of six kills; the
driver is started again over its checkpoint. The files have to hold each event once, and so does the
other hub without repeats.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cluster"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cluster" / "drivers"))

import hubbed
from crash import show, tell
from eventhubs import served
from killing import DRIVER, EXECUTOR, WORKER, Kill, Killing
from standalone import Cluster

from pyspark_eventhubs.testing import EventHubsServer

PARTITIONS = 4
_KILLS_EVERY = (0.2, 3.0)
"""A kill comes this many seconds after a micro-batch was committed."""

_KINDS = (DRIVER, *[EXECUTOR] * 2, *[WORKER] * 3)
_AT_ONCE = 10


def serve(pipe: Any, rate: float, seed: int) -> None:
    """Gives one hub events at a rate until it is told to stop, and tells how many the other has."""
    chance = random.Random(seed)
    sent = 0
    with EventHubsServer({hubbed.IN: PARTITIONS, hubbed.OUT: PARTITIONS}) as server:
        pipe.send(server.connection_string())
        while not pipe.poll(_AT_ONCE / rate):
            bodies = [b"%d" % number for number in range(sent, sent + _AT_ONCE)]
            server.send(hubbed.IN, bodies, partition=chance.randrange(PARTITIONS))
            sent += len(bodies)
        pipe.recv()
        pipe.send(sent)
        pipe.recv()
        pipe.send(sum(len(server.events(hubbed.OUT, at)) for at in range(PARTITIONS)))
        pipe.recv()


def asked(pipe: Any) -> int:
    """The next number that the server tells."""
    pipe.send("")
    return int(pipe.recv())


def killed(kills: int, chance: random.Random, pipe: Any, seconds: float) -> bool:
    """Runs the pipeline to its end; tells whether both outputs are right."""
    plan = [(chance.choice(_KINDS), chance.uniform(*_KILLS_EVERY)) for _ in range(kills)]
    done: list[Kill] = []
    sent = 0
    with Cluster(workers=2) as cluster, tempfile.TemporaryDirectory() as folder:
        killing = Killing(
            hubbed, Path(folder), cluster.options(), events=0, rate=0, seconds=seconds
        )

        def note(kill: Kill) -> None:
            nonlocal sent
            tell(kill)
            done.append(kill)
            if len(done) == kills:
                sent = asked(pipe)
                hubbed.end_of(killing.output).write_text(str(sent))

        with killing:
            killing.run(plan, chance, note)
        files = hubbed.written(killing.output)
        micro_batches = killing.committed() + 1
        in_hub = asked(pipe)
        hub = without_repeats(Path(folder))
    show(done)
    print(f"{sent} events, {micro_batches} micro-batches, {len(done)} kills")
    print(f"The other hub has {in_hub - sent} repeats among {in_hub} events.")
    wanted = hubbed.expected(sent)
    for name, found in (("files", files), ("hub without repeats", hub)):
        print(f"{name}: {(wanted - found).total()} lost, {(found - wanted).total()} double")
    return files == hub == wanted


def without_repeats(folder: Path) -> Counter[int]:
    """What a batch reads from the other hub with ``drop_repeats=True``."""
    output = folder / "once"
    command = [sys.executable, str(hubbed.__file__), "once", str(output)]
    subprocess.run([*command, "--spark_master=local[2]"], check=True, stdin=subprocess.DEVNULL)
    return Counter(map(int, output.read_text().split()))


def main() -> None:
    """Runs the pipeline and judges what has come of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=200, help="events a second")
    parser.add_argument("--seconds", type=float, default=3600, help="the longest time of all")
    arguments = parser.parse_args()
    began = time.monotonic()
    with served(serve, arguments.rate, arguments.seed) as (text, pipe):
        os.environ["HUB"] = text
        chance = random.Random(arguments.seed)
        right = killed(arguments.kills, chance, pipe, arguments.seconds)
    print(f"{time.monotonic() - began:.0f} s")
    if not right:
        sys.exit("Something is lost or double.")


if __name__ == "__main__":
    main()

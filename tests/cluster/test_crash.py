"""A streaming query goes on after a kill of whatever it runs on, and its output is exact.

``bench/crash.py`` does the same with many kills at random moments.
"""

import random
from pathlib import Path

import pytest
from killing import DRIVER, EXECUTOR, PROGRAMS, WORKER, Killing
from standalone import Cluster
from watching import Watching

KILLS = [(WORKER, 0.3), (EXECUTOR, 0.7), (DRIVER, 0.5)]
"""What is killed, and how many seconds after a commit."""


@pytest.mark.long("a minute; test_cluster.py kills a worker, and test_killed_sinks.py a driver")
@pytest.mark.timeout(600)
def test_output_is_exact_after_kills(cluster: Cluster, tmp_path: Path) -> None:
    cluster.ensure_workers(2)
    with (
        Killing(
            PROGRAMS["chained"],
            tmp_path,
            [*cluster.options(), "--shards=2"],
            events=1600,
            rate=400,
            seconds=560,
        ) as program,
        Watching(program.output) as reader,
    ):
        done = program.run(KILLS, random.Random(1))

    assert [kill.kind for kill in done] == [kind for kind, _ in KILLS]
    restarts = [int(kind == DRIVER) for kind, _ in KILLS]
    assert [kill.restarts for kill in done] == restarts, "Spark itself repairs all but the driver"
    missing, unexpected = program.differences()
    assert not missing
    assert not unexpected
    assert reader.polls
    assert not reader.problems

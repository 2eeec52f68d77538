"""No worker holds what it works through: the memory benchmark, at a fifth of its size."""

import sys
from pathlib import Path

import pytest
from command import python

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads the peaks from /proc"),
    pytest.mark.long("a minute; test_sizes.py counts the large values that are alive"),
]

BENCHMARK = Path(__file__).parent.parent / "bench" / "memory.py"
TASKS = [
    "one key, iterated twice",
    "one element emits all",
    "side input, read by key",
    "values of 1 MiB, combined",
    "400,000 windows",
]
LIMIT_MB = 512


@pytest.fixture(scope="module")
def peaks() -> dict[str, float]:
    """The largest peak of a worker in each task, in MiB."""
    printed = python(BENCHMARK, "--percent", 20, "--task", *TASKS).stdout
    found = [float(line.split()[-1]) for line in printed.splitlines()]
    return dict(zip(TASKS, found, strict=True))


@pytest.mark.parametrize("task", TASKS)
def test_the_peak_of_each_worker_stays_small(task: str, peaks: dict[str, float]) -> None:
    assert peaks[task] < LIMIT_MB

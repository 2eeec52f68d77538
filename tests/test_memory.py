"""No worker holds what it works through: the memory benchmark, at a fifth of its size."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parent.parent / "bench" / "memory.py"
LIMIT_MB = 512


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peaks from /proc")
@pytest.mark.parametrize(
    "task",
    [
        "one key, iterated twice",
        "one element emits all",
        "side input, read by key",
        "values of 1 MiB, combined",
        "400,000 windows",
    ],
)
def test_the_peak_of_each_worker_stays_small(task: str) -> None:
    command = [sys.executable, str(BENCHMARK), "--percent", "20", "--task", task]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert float(printed.split()[-1]) < LIMIT_MB

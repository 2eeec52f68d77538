"""Two real drivers over one checkpoint: one stands still, or both are started at once."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import standing
from waiting import until
from whole import is_whole

from sparkbeam.io import committed_files

pytestmark = pytest.mark.part(2)  # In process test_two_drivers.py has both at each point.

PROGRAM = Path(standing.__file__)
BATCHES = 4
ROWS = 10


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a file to read for each micro-batch."""
    (tmp_path / "in").mkdir()
    for batch in range(BATCHES):
        path = tmp_path / f"in/{batch}.json"
        rows = range(batch * ROWS, (batch + 1) * ROWS)
        path.write_text("".join(f'{{"id": {row}}}\n' for row in rows))
        os.utime(path, (batch, batch))
    return tmp_path


@contextmanager
def driver(folder: Path, point: str = "") -> Iterator["subprocess.Popen[str]"]:
    """A program that runs, and is gone with all that it has started afterwards."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(folder), point],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def stands(process: "subprocess.Popen[str]") -> bool:
    assert process.poll() is None, process.communicate()[1]
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def ids(folder: Path) -> list[int]:
    files = committed_files(str(folder / "out"))
    return sorted(int(line) for file in files for line in Path(file).read_text().split())


def is_taken(process: "subprocess.Popen[str]") -> bool:
    """Whether it has ended as another one has the checkpoint; it has ended well otherwise."""
    _, said = process.communicate()
    if process.returncode == 0:
        return False
    assert "CheckpointTaken: Another driver has taken over the checkpoint" in said, said
    return True


@pytest.mark.long("25 s; test_two_drivers.py shows it in process")
def test_a_driver_that_stood_still_ends_and_what_its_replacement_did_stays(
    spark: Any, folder: Path
) -> None:
    for point in standing.POINTS if is_whole() else ["between note and moves"]:
        place = folder / point.replace(" ", "-")
        place.mkdir()
        (place / "in").symlink_to(folder / "in")
        with driver(place, point) as old:
            until(partial(stands, old), seconds=120)
            standing.run(place, session=spark)
            assert ids(place) == list(range(BATCHES * ROWS)), point
            os.kill(old.pid, signal.SIGCONT)
            assert is_taken(old), point
        assert ids(place) == list(range(BATCHES * ROWS)), point
        files = [path.name for path in (place / "out").rglob("part-*")]
        assert len(ids(place)) == BATCHES * ROWS, files


def test_of_two_drivers_that_are_started_at_once_one_does_all(folder: Path) -> None:
    with driver(folder) as one, driver(folder) as other:
        ends = [is_taken(one), is_taken(other)]
    assert ends.count(True) <= 1
    assert ids(folder) == list(range(BATCHES * ROWS))

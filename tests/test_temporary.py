"""Folders for one run are private, and do not outlive those who have made them."""

import os
import stat
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Barrier

import apache_beam as beam
import pytest
from command import attempt
from in_process import Point, Spark, StreamingRunner

from sparkbeam.common import temporary_folders
from sparkbeam.common import temporary_folders as temporaries
from sparkbeam.common.temporary_folders import RunFolder, remove_abandoned, served_folder

LEAVE = """
import os
from pathlib import Path
from sparkbeam.common import temporary_folders
from sparkbeam.common.temporary_folders import RunFolder
folder = RunFolder("checkpoint")
Path(folder.name, "state").write_text("private")
print(folder.name, flush=True)
os._exit(1)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary ones, of this test alone."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left_behind() -> Path:
    """A folder of a process that has been killed."""
    return Path(attempt(sys.executable, "-c", LEAVE).stdout.strip())


def test_nobody_else_can_look_into_it() -> None:
    before = os.umask(0)
    try:
        folder = RunFolder("checkpoint")
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path(folder.name).stat().st_mode) == 0o700
    folder.cleanup()
    assert not Path(folder.name).exists()


def test_the_next_start_removes_what_a_killed_process_has_left() -> None:
    left = left_behind()
    assert (left / "state").exists()
    temporary_folders._remove_abandoned.cache_clear()
    in_use = RunFolder("side")
    assert not left.exists()
    remove_abandoned()
    assert Path(in_use.name).exists()
    in_use.cleanup()


def test_what_is_not_known_to_be_abandoned_stays(temporary: Path) -> None:
    strange = temporary / "sparkbeam-of-somebody"
    strange.mkdir()
    linked = temporary / "sparkbeam-linked"
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "owner").touch()
    linked.symlink_to(elsewhere)
    marked = temporary / "sparkbeam-marked"
    marked.mkdir()
    (marked / "owner").symlink_to(elsewhere / "owner")
    remove_abandoned()
    assert strange.exists()
    assert (elsewhere / "owner").exists()
    assert marked.exists()


def test_the_checkpoint_of_a_run_without_a_location_is_private_and_goes(temporary: Path) -> None:
    modes = set()

    def look(point: Point) -> None:
        for folder in temporary.glob("sparkbeam-checkpoint-*"):
            modes.add(stat.S_IMODE(folder.stat().st_mode))

    with beam.Pipeline(StreamingRunner(Spark(look))) as pipeline:
        _ = pipeline | beam.Create([1]) | beam.Map(str)
    assert modes == {0o700}
    assert list(temporary.glob("sparkbeam-checkpoint-*")) == []


def test_threads_that_start_at_once_share_the_folder_of_shipped_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make = cache(temporaries._served_folder.__wrapped__)
    monkeypatch.setattr(temporaries, "_served_folder", make)
    count = 8
    together = Barrier(count)

    def ask(_: int) -> str:
        together.wait()
        return served_folder().name

    with ThreadPoolExecutor(count) as threads:
        (folder,) = set(threads.map(ask, range(count)))
    assert Path(folder).is_dir()


def test_a_folder_elsewhere_is_removed_by_the_next_one_there(temporary: Path) -> None:
    room = temporary / "room"
    room.mkdir()
    left_behind().rename(room / "sparkbeam-kept-left")
    with RunFolder("kept", room) as name:
        assert [*room.iterdir()] == [Path(name)]

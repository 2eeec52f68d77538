"""Files that are read and written by Beam's own transforms, over a driver that is killed.

Kills come behind a micro-batch, before one, and while files are written, and new files before each
start. A reader looks at the folders all the time.
"""

import signal
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import files_program
import pytest
import table_programs
from command import Done
from files_program import WORDS, WRITES
from sinks_program import WITHIN
from word_files import place, read

Kill = tuple[str, int]
"""A point, and how often it is passed before."""

KILLS: dict[str, list[Kill]] = {
    "between micro-batches": [
        ("before Spark's commit", 1),
        ("before a micro-batch", 2),
        ("before Spark's commit", 0),
        ("before a micro-batch", 1),
        ("before Spark's commit", 3),
    ],
    "within a write": [(WITHIN, 0), (WITHIN, 4), (WITHIN, 1), (WITHIN, 7), (WITHIN, 2)],
}
POLLS_BY_KILL = 3
LETTERS = "abcd"


def run(folder: Path, *arguments: object) -> Done:
    return table_programs.run([], files_program.__file__, folder, *arguments, folder=folder)


@contextmanager
def reading(out: Path) -> Iterator[dict[Path, set[tuple[str, ...]]]]:
    """Read all files over and over, as another program would; hidden ones are left out."""
    seen: dict[Path, set[tuple[str, ...]]] = defaultdict(set)
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.005):
            for path in out.glob("*/[!.]*"):
                seen[path].add(tuple(read(path)))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


@pytest.mark.long("two minutes each; in test_pane_files.py queries crash in process")
@pytest.mark.parametrize("when", KILLS)
def test_files_are_read_and_written_once_however_often_the_driver_is_killed(
    when: str, tmp_path: Path
) -> None:
    kills = KILLS[when]
    polls = POLLS_BY_KILL * (len(kills) + 1)
    out = tmp_path / "out"
    words = []
    with reading(out) as seen:
        for number, kill in enumerate([*kills, None]):
            for letter in LETTERS:
                some = [f"{letter}{number}", f"{letter}{number}x"]
                place(tmp_path / f"in/{letter}{number}.txt", *some)
                words += some
            done = run(tmp_path, polls, *(kill or ()))
            assert done.returncode == (0 if kill is None else -signal.SIGKILL), done.stderr
        files = [*out.glob("*/*")]
        for path in files:
            seen[path].add(tuple(read(path)))
    for kind in WRITES:
        found = [word for path in (out / kind).iterdir() for word in read(path)]
        assert sorted(found) == sorted(words), kind
    # A file that has been seen stays, and stays what it is.
    assert set(seen) == set(files)
    assert {len(contents) for contents in seen.values()} == {1}
    assert not [path for path in out.glob("*/*") if path.name.startswith(".") or path.is_dir()]
    assert all(path.name[0] == path.read_text()[0] for path in (out / "files").iterdir())


BOUNDED: list[Kill] = [
    (WITHIN, 0),
    (WITHIN, 5),
    ("before Spark's commit", 0),
    (WITHIN, 2),
    ("before a micro-batch", 1),
]


@pytest.mark.long("two minutes; in test_pane_files.py queries crash in process")
def test_bounded_files_are_written_once_and_leave_no_temporary_ones(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for kill in [*BOUNDED, None]:
        done = run(tmp_path, 0, *(kill or ()))
        assert done.returncode in ((0,) if kill is None else (0, -signal.SIGKILL)), done.stderr
    for kind in WRITES:
        found = [word for path in (out / kind).iterdir() for word in read(path)]
        assert sorted(found) == sorted(WORDS), kind
    assert not [path for path in out.glob("*/*") if path.name.startswith(".") or path.is_dir()]

"""Sinks that write each micro-batch once, over a driver that is killed again and again.

Most kills come between the commits of the sinks and Spark's commit of the micro-batch, the others
within a commit. ``--whole`` has twenty of the former, and five of the latter.
"""

import signal
from pathlib import Path
from typing import Any

import pytest
import sinks_program
import streams
import table_programs
from sinks_program import COMMITTED, KEYS, WITHIN
from whole import is_whole

KILLS = 20
FILES = 24
ROWS = 6
EMPTY = 5
"""A file in so many has no rows."""

Kill = tuple[str, int]
"""A point, and how often it is passed before."""

OTHERS: dict[str, list[Kill]] = {
    "files": [
        ("between moves", 0),
        ("between note and moves", 1),
        ("between moves and mark", 5),
        (WITHIN, 0),
        ("between moves", 3),
    ],
    "jdbc": [
        ("after a statement", 2),
        ("after a write", 1),
        ("after a statement", 3),
        ("after a statement", 0),
        ("before a write", 1),
    ],
    "delta": [
        ("after a write", 1),
        (WITHIN, 0),
        ("after a write", 2),
        ("before a write", 4),
        ("after a write", 0),
    ],
    "iceberg": [
        ("after a table", 2),
        (WITHIN, 0),
        ("after a write", 0),
        ("after a table", 5),
        (WITHIN, 9),
    ],
}
"""Kills at other points than those behind the sinks, by family."""


def kills(family: str) -> list[Kill]:
    """Kills of successive runs; the first is in the first micro-batch."""
    planned: list[Kill] = []
    for number in range(KILLS):
        planned.append((COMMITTED[number % 2], (0, 0, 1, 0, 2)[number % 5]))
        if number % 4 == 0:
            planned.append(OTHERS[family][number // 4])
    return planned if is_whole() else planned[:2]


def last(folder: Path, log: str) -> int:
    """The number of the last micro-batch in one of Spark's logs."""
    names = (path.name for path in (folder / "checkpoint" / log).glob("[0-9]*"))
    return max((int(name) for name in names if name.isdecimal()), default=-1)


@pytest.mark.parametrize(
    "family",
    [
        pytest.param("files", marks=pytest.mark.long("crashes in process test files in each run")),
        pytest.param("jdbc", marks=pytest.mark.long("a minute; its rows are replaced by key")),
        "delta",
        "iceberg",
    ],
)
def test_rows_are_there_once_however_often_the_driver_is_killed(
    family: str, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    batches: list[list[dict[str, int]]] = []
    for number in range(FILES if is_whole() else 3):
        ids = range(number * ROWS, (number + 1) * ROWS if number % EMPTY != 1 else number * ROWS)
        batches.append([{"id": id, "key": id % KEYS, "part": id % 3} for id in ids])
        streams.write_json(tmp_path / f"in/{number}.json", batches[-1], FILES - number)
    program = (family, sinks_program.__file__, tmp_path, family)
    for number, (point, passed) in enumerate(kills(family)):
        done = table_programs.run(*program, point, passed, folder=tmp_path)
        assert done.returncode == -signal.SIGKILL, f"{point}, {passed}: {done.stderr}"
        if point in COMMITTED:
            assert last(tmp_path, "offsets") == last(tmp_path, "commits") + 1
        if number == 0:
            assert last(tmp_path, "offsets") == 0
    assert table_programs.findings(*program, folder=tmp_path) == expected(family, batches)


def expected(family: str, batches: list[list[dict[str, int]]]) -> dict[str, Any]:
    """The rows of an undisturbed run by sink, and one version for each micro-batch with rows."""
    every = [[*row.values()] for rows in batches for row in rows]
    latest = sorted({row[1]: row for row in every}.values())
    versions = sum(map(bool, batches))
    return {
        "files": {"parquet": [every, 0], "log": [every, 0], "table": [every, 0]},
        "jdbc": {"update": [latest, 0], "complete": [latest, 0]},
        "delta": {
            "append": [every, versions],
            "update": [latest, versions],
            "complete": [latest, versions],
        },
        "iceberg": {"append": [every, versions], "by key": [every, versions]},
    }[family]

"""Sinks that write each micro-batch once, over a driver that is killed again and again.

Most kills come between the commits of the sinks and Spark's commit of the micro-batch, the others
within a commit: twenty of the former, and five of the latter.
"""

import json
import signal
from dataclasses import astuple
from pathlib import Path
from typing import Any

import database_servers
import pytest
import sinks_program
import streams
import table_programs
from sinks_program import BEFORE_ALL, COMMITTED, KEYS, SERVER, SYSTEMS, WITHIN

pytestmark = pytest.mark.long("minutes each; crashes in process test sinks in each run")

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
        ("after a merge", 1),
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
    return planned


def last(folder: Path, log: str) -> int:
    """The number of the last micro-batch in one of Spark's logs."""
    names = (path.name for path in (folder / "checkpoint" / log).glob("[0-9]*"))
    return max((int(name) for name in names if name.isdecimal()), default=-1)


@pytest.fixture
def rows_of_files(tmp_path: Path) -> list[list[list[int]]]:
    """Files of a source, each for a micro-batch."""
    found = []
    for number in range(FILES):
        ids = range(number * ROWS, (number + 1) * ROWS if number % EMPTY != 1 else number * ROWS)
        rows = [{"id": id, "key": id % KEYS, "part": id % 3} for id in ids]
        streams.write_json(tmp_path / f"in/{number}.json", rows, FILES - number)
        found.append([[*row.values()] for row in rows])
    return found


@pytest.mark.parametrize("family", ["files", "jdbc", "delta", "iceberg"])
def test_rows_are_there_once_however_often_the_driver_is_killed(
    family: str, tmp_path: Path, rows_of_files: list[list[list[int]]]
) -> None:
    assert findings(family, tmp_path, kills(family)) == expected(family, rows_of_files)


@pytest.mark.parametrize("family", ["postgresql", "mariadb"])
def test_rows_with_a_key_are_there_once_in_a_database_and_others_at_least_once(
    family: str, tmp_path: Path, rows_of_files: list[list[list[int]]]
) -> None:
    with getattr(database_servers, family)() as server:
        (tmp_path / SERVER).write_text(json.dumps(astuple(server)))
        found = findings(family, tmp_path, [(COMMITTED[0], 0)])
    every, latest = total(rows_of_files)
    assert found == {
        "rows": [sorted([*rows_of_files[0], *every]), 0],
        "statement": [every, 0],
        "update": [latest, 0],
        "complete": [latest, 0],
    }


def findings(family: str, folder: Path, kills: list[Kill]) -> Any:
    """Kill the program, and return what it finds in a run without a kill."""
    (folder / "out").mkdir()
    program = (SYSTEMS.get(family, ()), sinks_program.__file__, folder, family)
    for number, (point, passed) in enumerate(kills):
        done = table_programs.run(*program, point, passed, folder=folder)
        assert done.returncode == -signal.SIGKILL, f"{point}, {passed}: {done.stderr}"
        if point in COMMITTED:
            assert last(folder, "offsets") == last(folder, "commits") + 1
        if number == 0:
            assert last(folder, "offsets") == 0
    return table_programs.findings(*program, folder=folder)


def expected(family: str, batches: list[list[list[int]]]) -> dict[str, Any]:
    """The rows of an undisturbed run by sink, and one version for each micro-batch with rows."""
    every, latest = total(batches)
    versions = sum(map(bool, batches))
    # Rows of the stream have no value in the further column, and replace only what they have.
    more, first = [[*row, None] for row in every], [*BEFORE_ALL]
    named = {
        "append": [[first, *more], versions],
        "update": [[[*row, None if row[1] else 7] for row in latest], versions],
        "complete": [[[*row, None] for row in latest], versions],
    }
    with_none = [[[id, key or None, part] for id, key, part in rows] for rows in (every, latest)]
    return {
        "files": {"parquet": [every, 0], "log": [every, 0], "table": [every, 0]},
        "jdbc": {"update": [latest, 0], "complete": [latest, 0]},
        "delta": {
            "append": [with_none[0], versions],
            "update": [with_none[1], versions],
            "complete": [with_none[1], versions],
            **{f"{mode} by name": found for mode, found in named.items()},
        },
        "iceberg": {
            "rows": [every, versions],
            "by key": [every, versions],
            "merge": [latest, versions],
            "new": [latest, versions],
            **named,
        },
    }[family]


def total(batches: list[list[list[int]]]) -> tuple[list[list[int]], list[list[int]]]:
    """All rows, and the latest of each key."""
    every = [row for rows in batches for row in rows]
    return every, sorted({row[1]: row for row in every}.values())

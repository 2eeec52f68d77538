"""History of all runs, in a local SQLite file with one row per run.

The columns of the table ``runs`` are the fields of :class:`~beam_nexmark.record.QueryRun`;
``configuration`` is JSON. A file with the suffix ``.jsonl`` has a line of JSON per run instead,
which suits version control.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import platformdirs

from beam_nexmark.record import (
    ADDED,
    NAMES,
    SCHEMA,
    QueryRun,
    append_json,
    read_lines,
    restored,
)
from sparkbeam.common.untrusted_json import loaded
from sparkbeam.errors import ConfigurationError

_LINES = ".jsonl"

_APPLICATION = 0x4E584D4B
"""Application id of the SQLite file: "NXMK"."""


def default_path() -> Path:
    """Return the path of the file in the user's data folder."""
    return platformdirs.user_data_path("sparkbeam") / "nexmark.db"


def append(runs: Iterable[QueryRun], path: Path) -> None:
    """Add runs; create the file and its folder if they are missing.

    Raises:
        ConfigurationError: the file cannot be written, or is not a history.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"Cannot write '{path}': {error.strerror}.") from error
    if path.suffix == _LINES:
        append_json(runs, path)
        return
    with _opened(path) as connection:
        connection.executemany(
            f"INSERT INTO runs ({', '.join(NAMES)}) "
            f"VALUES ({', '.join(f':{name}' for name in NAMES)})",
            [
                {**asdict(run), "configuration": json.dumps(run.configuration, sort_keys=True)}
                for run in runs
            ],
        )


def read(path: Path) -> Sequence[QueryRun]:
    """Return all runs, the oldest first.

    Raises:
        ConfigurationError: the file is missing, or is not a history.
    """
    if not path.exists():
        raise ConfigurationError(
            f"The history '{path}' does not exist: 'sparkbeam nexmark' creates it. Name "
            "another with --history."
        )
    if path.suffix == _LINES:
        return read_lines(path)
    with _opened(path) as connection:
        rows = connection.execute(f"SELECT {', '.join(NAMES)} FROM runs ORDER BY rowid").fetchall()
    try:
        return [_run(dict(zip(NAMES, row, strict=True))) for row in rows]
    except (ValueError, TypeError) as error:
        raise ConfigurationError(_damaged(path, error)) from error


def _run(values: dict[str, Any]) -> QueryRun:
    return restored({**values, "configuration": loaded(values["configuration"])})


def _damaged(path: Path, reason: Exception) -> str:
    return (
        f"'{path}' is not a history of 'sparkbeam nexmark', or is damaged ({reason}): "
        "move it away, or name another with --history."
    )


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a history file, and commit at the end."""
    try:
        with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
            _prepare(connection, path)
            yield connection
    except sqlite3.OperationalError as error:
        raise ConfigurationError(f"Cannot use the history '{path}': {error}.") from error
    except sqlite3.DatabaseError as error:
        raise ConfigurationError(_damaged(path, error)) from error


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the table in an empty file, upgrade an older one; refuse other files."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application == _APPLICATION and version == SCHEMA:
        return
    if application == _APPLICATION and version in ADDED:
        _renew(connection)
        return
    if application == _APPLICATION:
        raise ConfigurationError(
            f"The history '{path}' has format {version}, but this version of sparkbeam uses "
            f"format {SCHEMA}: move it away, or name another with --history."
        )
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise sqlite3.DatabaseError("another program's tables")
    connection.execute(f"CREATE TABLE runs ({', '.join(NAMES)})")
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {SCHEMA}")


def _renew(connection: sqlite3.Connection) -> None:
    """Add missing columns to an older table, unless another process has just done so."""
    connection.execute("BEGIN IMMEDIATE")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    for name in ADDED.get(version, ()):
        connection.execute(f"ALTER TABLE runs ADD COLUMN {name}")
    connection.execute(f"PRAGMA user_version = {SCHEMA}")

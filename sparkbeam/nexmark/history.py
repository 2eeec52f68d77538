"""All runs of the past, in a local SQLite file with one row a run.

The columns of the table ``runs`` are the fields of
:class:`~sparkbeam.nexmark.record.Run`; ``configuration`` is JSON. A file whose name ends in
``.jsonl`` has a line of JSON for each run instead, which version control can keep and merge.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import platformdirs

from sparkbeam.common.untrusted_json import loaded
from sparkbeam.errors import ConfigurationError
from sparkbeam.nexmark.record import (
    ADDED,
    NAMES,
    SCHEMA,
    Run,
    append_json,
    read_lines,
    restored,
)

_LINES = ".jsonl"

_APPLICATION = 0x4E584D4B
"""SQLite's mark of whose file it is: "NXMK"."""


def default_path() -> Path:
    """The file in the user's data folder."""
    return platformdirs.user_data_path("sparkbeam") / "nexmark.db"


def append(runs: Iterable[Run], path: Path) -> None:
    """Adds runs; makes the file and its folder if they are missing.

    Raises:
        ConfigurationError: the file cannot be written, or is something else.
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


def read(path: Path) -> Sequence[Run]:
    """All runs, the oldest first.

    Raises:
        ConfigurationError: there is no such file, or it is something else.
    """
    if not path.exists():
        raise ConfigurationError(
            f"There is no history '{path}': 'sparkbeam nexmark' makes it, --history names another."
        )
    if path.suffix == _LINES:
        return read_lines(path)
    with _opened(path) as connection:
        rows = connection.execute(f"SELECT {', '.join(NAMES)} FROM runs ORDER BY rowid").fetchall()
    try:
        return [_run(dict(zip(NAMES, row, strict=True))) for row in rows]
    except (ValueError, TypeError) as error:
        raise ConfigurationError(_damaged(path, error)) from error


def _run(values: dict[str, Any]) -> Run:
    return restored({**values, "configuration": loaded(values["configuration"])})


def _damaged(path: Path, reason: Exception) -> str:
    return (
        f"'{path}' is no history of 'sparkbeam nexmark', or damaged ({reason}): "
        "move it away, or name another with --history."
    )


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a file of ours; commits at the end."""
    try:
        with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
            _prepare(connection, path)
            yield connection
    except sqlite3.OperationalError as error:
        raise ConfigurationError(f"Cannot use the history '{path}': {error}.") from error
    except sqlite3.DatabaseError as error:
        raise ConfigurationError(_damaged(path, error)) from error


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Makes the table in an empty file, renews an older one; refuses what is of another kind."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application == _APPLICATION and version == SCHEMA:
        return
    if application == _APPLICATION and version in ADDED:
        _renew(connection)
        return
    if application == _APPLICATION:
        raise ConfigurationError(
            f"The history '{path}' has form {version}, this version of sparkbeam uses form "
            f"{SCHEMA}: move it away, or name another with --history."
        )
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise sqlite3.DatabaseError("another program's tables")
    connection.execute(f"CREATE TABLE runs ({', '.join(NAMES)})")
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {SCHEMA}")


def _renew(connection: sqlite3.Connection) -> None:
    """Gives an older table the columns that it lacks, unless another process has just done so."""
    connection.execute("BEGIN IMMEDIATE")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    for name in ADDED.get(version, ()):
        connection.execute(f"ALTER TABLE runs ADD COLUMN {name}")
    connection.execute(f"PRAGMA user_version = {SCHEMA}")

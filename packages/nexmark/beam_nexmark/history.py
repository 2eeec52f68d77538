"""Files of runs: the history, to which runs are added, and the file of ``--json``.

Each line is a JSON object with the fields of a :class:`~beam_nexmark.record.QueryRun`.
"""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import platformdirs

from beam_nexmark.record import QueryRun
from sparkbeam.common.display_text import line, printable_in, without_folders
from sparkbeam.common.untrusted_json import loaded, parsed
from sparkbeam.errors import ConfigurationError

SCHEMA = 4
"""Version of the format of stored runs."""

_LONGEST_LINE = 1_000_000


def default_path() -> Path:
    """Return the path of the history in the user's data folder."""
    return platformdirs.user_data_path("sparkbeam") / "nexmark.jsonl"


def write(runs: Iterable[QueryRun], path: Path) -> None:
    """Write a file of runs.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    try:
        path.write_text(_lines(runs), encoding="utf-8")
    except OSError as error:
        raise _unwritable(path, error) from error


def append(runs: Iterable[QueryRun], path: Path) -> None:
    """Add runs, without the folders of this machine; create the file and its folder if missing.

    Raises:
        ConfigurationError: the file cannot be written, or has other contents.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            file.seek(0)
            first = file.readline(_LONGEST_LINE)
            if first:
                _parsed(first.decode(errors="replace"), path, 1)
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":
                    file.write(b"\n")
            file.write(_lines(map(_shareable, runs)).encode())
    except OSError as error:
        raise _unwritable(path, error) from error


def read(path: Path) -> Sequence[QueryRun]:
    """Return the runs of a file, the oldest first.

    Raises:
        ConfigurationError: the file is missing, cannot be read, or has other contents.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"The history '{path}' does not exist: 'sparkbeam nexmark' creates it. Name "
            "another with --history."
        ) from error
    except OSError as error:
        raise ConfigurationError(f"Cannot read '{path}': {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(_foreign(path, 1)) from error
    return [_parsed(text, path, number) for number, text in enumerate(lines, start=1)]


def _lines(runs: Iterable[QueryRun]) -> str:
    return "".join(json.dumps({"schema": SCHEMA, **asdict(run)}) + "\n" for run in runs)


def _shareable(run: QueryRun) -> QueryRun:
    failure, checked = (text and without_folders(text) for text in (run.failure, run.checked))
    return replace(run, failure=failure, checked=checked)


def _parsed(text: str, path: Path, number: int) -> QueryRun:
    try:
        values = loaded(text)
        schema = values.pop("schema")
        if schema == SCHEMA:
            return parsed(QueryRun, printable_in(values, line))
    except (ValueError, KeyError) as error:
        raise ConfigurationError(_foreign(path, number)) from error
    if not isinstance(schema, int):
        raise ConfigurationError(_foreign(path, number))
    raise ConfigurationError(
        f"'{path}' has runs in format {schema}, but this version of sparkbeam reads format "
        f"{SCHEMA}: move it away, or name another with --history."
    )


def _foreign(path: Path, number: int) -> str:
    return f"'{path}', line {number}, is not a run of 'sparkbeam nexmark'."


def _unwritable(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"Cannot write '{path}': {error.strerror}.")

"""Record of one run of a query, and the file written by ``--json``."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import median
from typing import Any, get_type_hints

from sparkbeam.common.arguments import shown
from sparkbeam.common.display_text import line, printable_in, without_folders
from sparkbeam.common.untrusted_json import loaded
from sparkbeam.errors import ConfigurationError

SCHEMA = 4
"""Version of the format of stored runs."""

ADDED = {1: ("revision", "machine", "lacks", "pace"), 2: ("lacks", "pace"), 3: ("pace",)}
"""Fields missing in older versions of the format; other versions are refused."""

OURS = "sparkbeam.SparkRunner"
"""Name of sparkbeam's own runner; others have their class names."""

_MOST = 1 << 63
_LONGEST_LINE = 1_000_000

PASSED = "passed"
"""Value of ``checked`` for a right result."""


@dataclass(frozen=True)
class QueryRun:
    """One run of one query.

    Attributes:
        started: the start of the invocation, ISO 8601 in UTC.
        repeat: the number of the run among the repeats of its invocation, from 1.
        runner: ``OURS``, or the class name of another runner.
        mode: ``batch``, ``streaming``, or ``streaming at N/s`` if a stream has a rate; followed by
            ``, in SQL`` if the query is.
        configuration: all settings of generator and queries.
        cores: the number of concurrent tasks of the runner.
        seconds: from the start of the pipeline to its end; None if it failed.
        digest: order-independent hash of the results, in hexadecimal.
        peak_memory: peak bytes of this process and its children together.
        checked: None if unchecked, ``passed``, or the difference.
        revision: the commit of sparkbeam, with ``+`` if files were modified; None if unknown.
        machine: processor, cores and memory; None if unknown.
        lacks: the missing feature of the runner that explains the failure.
        pace: the seconds that a fixed piece of Python took just before the run, as a measure of the
            machine's load; None if unknown.
    """

    started: str
    repeat: int
    query: int
    name: str
    runner: str
    mode: str
    events: int
    configuration: dict[str, Any]
    cores: int
    sparkbeam: str
    beam: str
    pyspark: str
    python: str
    seconds: float | None = None
    results: int | None = None
    digest: str | None = None
    peak_memory: int | None = None
    failure: str | None = None
    checked: str | None = None
    revision: str | None = None
    machine: str | None = None
    lacks: str | None = None
    pace: float | None = None

    @property
    def is_right(self) -> bool:
        """Return whether nothing failed: it ran, unless its runner cannot, and no check failed."""
        ran = self.failure is None or self.lacks is not None
        return ran and self.checked in (None, PASSED)

    @property
    def workload(self) -> str:
        """A key that is equal for runs that must have equal results."""
        return json.dumps([self.query, self.mode, self.configuration], sort_keys=True)


NAMES = tuple(field.name for field in fields(QueryRun))
_TYPES = {**get_type_hints(QueryRun), "configuration": dict}


def median_seconds(runs: Iterable[QueryRun]) -> float | None:
    """Return the median runtime of the successful runs; None if there are none."""
    times = [run.seconds for run in runs if run.seconds is not None]
    return median(times) if times else None


def write_json(runs: Iterable[QueryRun], path: Path) -> None:
    """Write one JSON object per run, each on a separate line."""
    try:
        path.write_text(_lines(runs), encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"Cannot write '{path}': {error.strerror}.") from error


def append_json(runs: Iterable[QueryRun], path: Path) -> None:
    """Add lines to a public file, without the folders of this machine.

    Raises:
        ConfigurationError: the file cannot be written, or has other contents.
    """
    try:
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
        raise ConfigurationError(f"Cannot write '{path}': {error.strerror}.") from error


def _lines(runs: Iterable[QueryRun]) -> str:
    return "".join(json.dumps({"schema": SCHEMA, **asdict(run)}) + "\n" for run in runs)


def _shareable(run: QueryRun) -> QueryRun:
    failure, checked = (text and without_folders(text) for text in (run.failure, run.checked))
    return replace(run, failure=failure, checked=checked)


def read_json(path: Path) -> Sequence[QueryRun]:
    """Return the runs of a file written by :func:`write_json`.

    Raises:
        ConfigurationError: it cannot be read, has no runs, or has other contents.
    """
    runs = read_lines(path)
    if not runs:
        raise ConfigurationError(f"'{path}' contains no runs.")
    return runs


def read_lines(path: Path) -> Sequence[QueryRun]:
    """Return the runs of a file with one run per line; it may be empty.

    Raises:
        ConfigurationError: it cannot be read, or has other contents.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigurationError(f"Cannot read '{path}': {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(_foreign(path, 1)) from error
    return [_parsed(line, path, number) for number, line in enumerate(lines, start=1)]


def _parsed(line: str, path: Path, number: int) -> QueryRun:
    try:
        values = loaded(line)
        schema = values.pop("schema")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ConfigurationError(_foreign(path, number)) from error
    if not isinstance(schema, int):
        raise ConfigurationError(_foreign(path, number))
    if schema != SCHEMA and schema not in ADDED:
        raise ConfigurationError(
            f"'{path}' has runs in format {schema}, but this version of sparkbeam reads "
            f"format {SCHEMA}: repeat the measurement, or read it with the version that wrote it."
        )
    try:
        return restored({**dict.fromkeys(ADDED.get(schema, ())), **values})
    except ValueError as error:
        raise ConfigurationError(_foreign(path, number)) from error


def restored(values: dict[str, Any]) -> QueryRun:
    """Return the run with these values.

    Raises:
        ValueError: a value is missing, unknown, or of the wrong type.
    """
    if values.keys() != _TYPES.keys():
        raise ValueError("the names of the values differ")
    for name, kind in _TYPES.items():
        value = values[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"'{name}' cannot be {shown(value)}")
        if isinstance(value, int | float) and not 0 <= value < _MOST:
            raise ValueError(f"'{name}' cannot be {shown(value)}")
    return QueryRun(**printable_in(values, line))


def _foreign(path: Path, number: int) -> str:
    return f"'{path}', line {number}, is not a run of 'sparkbeam nexmark --json'."

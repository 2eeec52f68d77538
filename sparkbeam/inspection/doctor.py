"""Examination of a session and its workers: whatever a pipeline may find missing while it runs."""

import ast
import json
import logging
import platform
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from sparkbeam.batch.side_probe import broadcast_bytes
from sparkbeam.common.display_text import line, shortened
from sparkbeam.common.entry_points import distributions
from sparkbeam.inspection import worker_checks
from sparkbeam.observe.figures.formats import counted
from sparkbeam.observe.figures.tables import table_lines
from sparkbeam.spark import session as sessions
from sparkbeam.spark.capabilities import WITHOUT, Capability, is_available, refused_settings
from sparkbeam.spark.failures import explained
from sparkbeam.streaming.checkpoint_files import absolute, files_of
from sparkbeam.upstream.spark import full_version
from sparkbeam.wire.failure import FailureReports
from sparkbeam.wire.heap import shown_bytes

OK, LACKS, FAILS, DIFFERS = "ok", "lacks", "fails", "differs"
"""States of a check. With the second and the last one pipelines run, in another way."""

_NEEDED = frozenset([Capability.PARTITIONS])
_MOST = 300
_TASKS_PER_CORE = 2


@dataclass(frozen=True)
class Check:
    """Outcome of a check.

    Attributes:
        subject: the session or the workers.
    """

    subject: str
    name: str
    state: str
    text: str = ""


def check_lines(checks: Iterable[Check]) -> Iterator[str]:
    """Yield the checks as lines of a table."""
    rows = [(each.name, each.state, shortened(line(each.text), _MOST)) for each in checks]
    yield from table_lines(rows)


def modules_of(program: Path) -> tuple[str, ...]:
    """Return the modules that a program imports, without those of Python itself.

    Raises:
        SyntaxError: it is no Python.
    """
    found: list[str] = []
    for node in ast.walk(ast.parse(program.read_bytes())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append(node.module)
    others = (name for name in found if name.partition(".")[0] not in sys.stdlib_module_names)
    return tuple(dict.fromkeys(others))


def session_checks(session: Any) -> Iterator[Check]:
    """Examine a session by small queries."""
    yield Check("session", "Spark", OK, f"{session.version}, with PySpark {full_version()}")
    yield _of_settings(session)
    for capability in Capability:
        if capability is not Capability.SETTINGS:
            yield _of_capability(session, capability)


def _of_settings(session: Any) -> Check:
    """Read and change the settings that a pipeline reads and changes."""
    for read in (sessions.heap, sessions.scratch, sessions.is_local, broadcast_bytes):
        with _quiet():
            read(session)
    with _quiet(), sessions.set_for_streaming(session, 1):
        pass
    refused = refused_settings(session)
    if not refused:
        return Check("session", Capability.SETTINGS.value, OK)
    text = f"it refuses {', '.join(refused)}: {WITHOUT[Capability.SETTINGS]}"
    return Check("session", Capability.SETTINGS.value, LACKS, text)


def _of_capability(session: Any, capability: Capability) -> Check:
    lacking = FAILS if capability in _NEEDED else LACKS
    try:
        with _quiet():
            is_there = is_available(session, capability)
    except Exception as error:
        return Check("session", capability.value, FAILS, str(explained(error, FailureReports())))
    if is_there:
        return Check("session", capability.value, OK)
    return Check("session", capability.value, lacking, WITHOUT[capability])


def worker_checks_of(
    session: Any,
    modules: tuple[str, ...] = (),
    addresses: Mapping[str, tuple[str, int]] | None = None,
    checkpoint: str | None = None,
) -> Iterator[Check]:
    """Examine the workers of a session.

    Args:
        modules: names of modules that they must be able to import.
        addresses: hosts and ports that they must reach.
        checkpoint: a checkpoint location that they share with the driver; None for none.
    """
    location = None if checkpoint is None else absolute(checkpoint)
    token = secrets.token_hex(8)
    own = None if location is None else files_of(session, location)
    try:
        if own is not None:
            own.write(f"doctor/{token}", token.encode())
        task = worker_checks.Examination(_packages(), modules, addresses or {}, location, token)
        found = _examined(session, task)
    except Exception as error:
        yield Check("workers", "Python", FAILS, str(explained(error, FailureReports())))
        return
    programs = ", ".join(sorted({each["program"] for each in found}))
    hosts = counted(len({each["host"] for each in found}), "machine")
    pythons = {each["python"] for each in found}
    yield _compared("Python", platform.python_version(), pythons, f"{programs} on {hosts}")
    for name, version in worker_checks.versions(_packages()).items():
        yield _compared(name, version, {each["packages"][name] for each in found})
    limits = [each["memory"] for each in found if each["memory"] is not None]
    text = f"limit of {shown_bytes(min(limits))}" if limits else "no limit"
    yield Check("workers", "memory", OK, text)
    yield _of_all("temporary folder", [each["temporary"] for each in found])
    for part, title in (("modules", "import"), ("addresses", "network")):
        for name in found[0][part]:
            yield _of_all(f"{title} {name}", [each[part][name] for each in found])
    if own is not None:
        seen = [name for name in own.names("doctor") if name.startswith(f"{token}-")]
        problems = [each["checkpoint"] for each in found]
        if len(seen) < len(found):
            problems.append("the driver does not see the workers' files there")
        yield _of_all("checkpoint location", problems)
        for name in (token, *seen):
            with suppress(Exception):
                own.remove(f"doctor/{name}")


def _examined(session: Any, task: worker_checks.Examination) -> list[dict[str, Any]]:
    """Return the findings of each task, at least one for each core."""
    tasks = _TASKS_PER_CORE * sessions.cores(session)
    cloudpickle.register_pickle_by_value(worker_checks)
    try:
        rows = session.range(0, tasks, 1, tasks).mapInArrow(task, "found string").collect()
    finally:
        cloudpickle.unregister_pickle_by_value(worker_checks)
    return [json.loads(text) for (text,) in rows]


def _packages() -> tuple[str, ...]:
    return (*worker_checks.PACKAGES, *distributions())


def _compared(name: str, own: str | None, others: set[str | None], text: str = "") -> Check:
    """Compare a version of the driver with those of the workers."""
    if None in others:
        return Check("workers", name, FAILS, "it is missing: install it on every worker")
    told = ", ".join(sorted(map(str, others)))
    if others == {own}:
        return Check("workers", name, OK, " ".join(filter(None, [told, text])))
    return Check("workers", name, DIFFERS, f"{told} {text}".strip() + f", but {own} in the driver")


def _of_all(name: str, problems: list[str]) -> Check:
    told = list(dict.fromkeys(filter(None, problems)))
    return Check("workers", name, FAILS if told else OK, "; ".join(told))


@contextmanager
def _quiet() -> Iterator[None]:
    """Log no lacks, which the table has."""
    usual = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(usual)

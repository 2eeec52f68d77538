"""Programs with Delta or Iceberg, run with a PySpark for which there is a release of them.

That is the PySpark of the tests, or else the older one that ``./dev`` puts into ``.venv-tables``.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyspark
import pytest
from command import Done, attempt

from sparkbeam.common.maven_packages import released

NO_JAR = 77
"""The exit code of a program whose Spark cannot get the jars."""

QUICK = (
    "spark.databricks.delta.snapshotPartitions=1",
    "spark.sql.shuffle.partitions=1",
    "spark.ui.enabled=false",
)
"""Settings for tables of a few rows."""

_OLDER = Path(__file__).parents[2] / ".venv-tables"


def run(
    systems: Sequence[str], program: str, *arguments: object, folder: Path | None = None
) -> Done:
    """Run a program; skip the test where there is no PySpark for it, or no jar.

    Args:
        systems: of ``delta`` and ``iceberg``, those that it needs.
        program: the path of its file.
        arguments: of the program.
        folder: its working directory.
    """
    path = [*_search_path(systems), *filter(None, sys.path)]
    variables = {"PYTHONPATH": os.pathsep.join(path)}
    done = attempt(sys.executable, program, *arguments, folder=folder, more=variables)
    if done.returncode == NO_JAR:
        pytest.skip(f"Spark cannot get the jars of {systems}: {done.stderr}")
    return done


def findings(
    systems: Sequence[str], program: str, *arguments: object, folder: Path | None = None
) -> Any:
    """Return the JSON that a program prints last; see :func:`run`."""
    done = run(systems, program, *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def settings(systems: Sequence[str], *more: str) -> list[str]:
    """Return options for the settings of a program's session.

    Args:
        systems: those whose jars the environment may name.
        more: further settings.
    """
    jars = ",".join(filter(None, map(_given_jars, systems)))
    given = [f"spark.jars={jars}"] if jars else []
    return [f"--spark_conf={setting}" for setting in (*given, *QUICK, *more)]


def settings_with_jars(systems: Sequence[str], *more: str) -> list[str]:
    """Return such options for a session that gets the jars by them alone."""
    needed = [system for system in systems if not _given_jars(system)]
    packages = ",".join(f"{released(system, pyspark.__version__)}" for system in needed)
    return settings(systems, *[f"spark.jars.packages={packages}"] * bool(packages), *more)


def _given_jars(system: str) -> str | None:
    return os.environ.get(f"{system.upper()}_JARS")


def _search_path(systems: Sequence[str]) -> list[str]:
    """Return what precedes the modules of this process."""
    for version, path in _versions():
        if all(released(system, version) for system in systems):
            return path
    what = " and ".join(systems)
    pytest.skip(f"there is no {what} for Spark {pyspark.__version__}, nor an older PySpark")


def _versions() -> Iterator[tuple[str, list[str]]]:
    """Yield the versions of PySpark that there are."""
    yield pyspark.__version__, []
    for info in _OLDER.glob("pyspark-*.dist-info"):
        yield info.stem.removeprefix("pyspark-"), [str(_OLDER)]

"""Programs with Delta or Iceberg, run with a PySpark for which there is a release of them.

That is the PySpark of the tests, or else the older one that ``./dev`` puts into ``.venv-tables``.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from sparkbeam.common.spark_packages import released

NO_JAR = 77
"""The exit code of a program whose Spark cannot get the jars."""

_OLDER = Path(__file__).parents[2] / ".venv-tables"


def run(
    system: str, program: str, *arguments: object, folder: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a program; skip the test where there is no PySpark for it, or no jar.

    Args:
        system: ``delta`` or ``iceberg``; another one needs no release.
        program: the path of its file.
        arguments: of the program.
        folder: its working directory.
    """
    path = [*_search_path(system), *filter(None, sys.path)]
    done = subprocess.run(
        [sys.executable, program, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == NO_JAR:
        pytest.skip(f"Spark cannot get the jars of {system}: {done.stderr}")
    return done


def findings(system: str, program: str, *arguments: object, folder: Path | None = None) -> Any:
    """Return the JSON that a program prints last; see :func:`run`."""
    done = run(system, program, *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def given_jars(system: str) -> list[str]:
    """Return the setting of a session with the jars that the environment names, if it does."""
    jars = os.environ.get(f"{system.upper()}_JARS")
    return [f"spark.jars={jars}"] if jars else []


def jars(system: str) -> list[str]:
    """Return the setting by which a session of this process gets the jars, if it needs any."""
    package = released(system, pyspark.__version__)
    return given_jars(system) or [f"spark.jars.packages={package}"] * (package is not None)


def _search_path(system: str) -> list[str]:
    """Return what precedes the modules of this process."""
    if system not in ("delta", "iceberg"):
        return []
    for version, path in _versions():
        if released(system, version) is not None:
            return path
    pytest.skip(f"there is no {system} for Spark {pyspark.__version__}, nor an older PySpark")


def _versions() -> Iterator[tuple[str, list[str]]]:
    """Yield the versions of PySpark that there are."""
    yield pyspark.__version__, []
    for info in _OLDER.glob("pyspark-*.dist-info"):
        yield info.stem.removeprefix("pyspark-"), [str(_OLDER)]

"""A Python without some packages, such as that of a machine with pyspark-client."""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]

NO_PYSPARK = ("py4j", "pyspark")
CLIENT = ("py4j", "pyspark.core", "pyspark.sql.classic")
"""What pyspark-client lacks of pyspark."""

_START = """
import sys

class Without:
    def find_spec(self, name, *_):
        if any(name == one or name.startswith(one + ".") for one in {names}):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Without())
"""
"""What it reads when it starts."""


def environment(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The variables of a process that finds none of these packages."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(_START.format(names=tuple(names)))
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}


def client_python(folder: Path) -> str:
    """A Python with pyspark-client and all else that this one has."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "pyspark-client"]
    subprocess.run(install, check=True)
    (own,) = folder.glob("lib/*/site-packages")
    for entry in map(Path, sys.path):
        for package in entry.glob("*") if entry.name == "site-packages" else ():
            _link(package, own)
    return python


def _link(package: Path, folder: Path) -> None:
    """Puts a package into another environment, unless that has one or may not have it."""
    target = folder / package.name
    if not target.exists() and not package.name.startswith(("py4j", "pyspark")):
        target.symlink_to(package)

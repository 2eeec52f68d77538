"""Lets the JVMs of the tests start in half the time: each would load and verify the same classes.

They share an archive of Spark's classes (Java's class data sharing), and stop at the first
compiler: none of them lives long enough to be repaid for the second one's work.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark

_FOLDER = Path(__file__).parents[1] / ".pytest_cache/d/jvm"
_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SECONDS = 300

_PROGRAM = """
import apache_beam as beam
from sparkbeam import SparkRunner

for mode in ([], ["--streaming"]):
    with beam.Pipeline(SparkRunner(), argv=["--spark_master=local[2]", *mode]) as pipeline:
        numbers = pipeline | beam.Create([("a", 1), ("b", 2)])
        numbers | beam.CombinePerKey(sum) | beam.GroupByKey() | beam.Map(str)
"""


def prepare(*, make: bool = True) -> None:
    """Sets the environment that JVMs started from here on read.

    Args:
        make: an archive where there is none yet, which starts a JVM.
    """
    if shutil.which(_java()) is None or _OPTIONS in os.environ.get("SPARK_LAUNCHER_OPTS", ""):
        return  # Without Java, or as the process that has started this one.
    options = _OPTIONS
    archive = _FOLDER / f"{_identity()}.jsa"
    if archive.exists() or (make and _make(archive)):
        options += f" -XX:SharedArchiveFile={archive} -Xlog:disable"
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
        os.environ[name] = f"{os.environ.get(name, '')} {options}".strip()
    os.environ["SPARK_LAUNCHER_OPTS"] = _OPTIONS


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def _identity() -> str:
    """Of Spark and Java: an archive fits only those that made it."""
    java = Path(shutil.which(_java()) or "").resolve()
    release = java.parents[1] / "release"
    version = release.read_bytes() if release.exists() else java.stat().st_mtime_ns
    content = f"{pyspark.__file__} {pyspark.__version__} {java} {version!r}"
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _make(archive: Path) -> bool:
    """Runs a small program that leaves an archive behind; False where there is none."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    options = f"{_OPTIONS} -XX:ArchiveClassesAtExit={unfinished} -Xlog:disable"
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": options}
    program = [sys.executable, "-c", _PROGRAM]
    # It ends with its JVM, whose last act is to write the archive.
    with contextlib.suppress(subprocess.SubprocessError):
        subprocess.run(program, env=environment, capture_output=True, check=True, timeout=_SECONDS)
    if not unfinished.exists():
        return False
    unfinished.replace(archive)
    return True


if __name__ == "__main__":
    prepare()

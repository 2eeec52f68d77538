"""Provenance of a measurement: the commit of the code, and the machine."""

import os
import platform
import statistics
import subprocess
import timeit
from pathlib import Path

import psutil

import sparkbeam

CHANGED = "+"
"""Suffix of a commit whose files are modified."""

_FOLDER = Path(sparkbeam.__file__).parent
_GIT_SECONDS = 10
_STEPS = 1_000_000


def revision() -> str | None:
    """Return the commit of sparkbeam's files, with ``+`` if they are modified; None without one.

    There is none unless sparkbeam is a clone itself; a surrounding repository does not count.
    """
    if _git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    head = _git("rev-parse", "HEAD")
    if head is None:
        return None
    return head + CHANGED if _git("status", "--porcelain", "--", ".", "../packages") != "" else head


def machine() -> str:
    """Describe processor, cores and memory: measurements on equal machines are comparable."""
    gigabytes = round(psutil.virtual_memory().total / 1e9)
    return f"{_processor()}, {os.cpu_count()} cores, {gigabytes} GB"


def pace() -> float:
    """Return the seconds taken by a fixed piece of Python, a measure of the machine's speed.

    It is the median of some measurements, as single ones differ by half.
    """
    return statistics.median(timeit.repeat(f"for _ in range({_STEPS}): pass", number=1))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(filter(None, [*names, platform.processor(), platform.machine()]), "unknown")


def _git(*arguments: str) -> str | None:
    """Run git in the package's folder; return None if it fails or is missing."""
    # Within a hook git's own variables would lead to another repository.
    environment = {name: value for name, value in os.environ.items() if name[:4] != "GIT_"}
    try:
        done = subprocess.run(
            ["git", "-C", str(_FOLDER), *arguments],
            capture_output=True,
            check=True,
            text=True,
            timeout=_GIT_SECONDS,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.strip()

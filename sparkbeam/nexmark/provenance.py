"""Where a measurement comes from: the commit of the code, and the machine."""

import os
import platform
import subprocess
import time
from pathlib import Path

import psutil

import sparkbeam

CHANGED = "+"
"""What stands behind a commit whose files were changed since."""

_FOLDER = Path(sparkbeam.__file__).parent
_GIT_SECONDS = 10
_STEPS = 1_000_000


def revision() -> str | None:
    """The commit of sparkbeam's own files, with ``+`` where they differ from it; None without one.

    There is none where sparkbeam is not a clone, be it that its folder lies within one of others.
    """
    if _git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    head = _git("rev-parse", "HEAD")
    if head is None:
        return None
    return head + CHANGED if _git("status", "--porcelain", "--", ".") != "" else head


def commit_of(name: str) -> str | None:
    """The commit that a tag, a branch or a part of a hash stands for; None if it is none."""
    return _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")


def last_tag() -> str | None:
    """The newest tag before the commit; None without one."""
    return None if revision() is None else _git("describe", "--tags", "--abbrev=0")


def machine() -> str:
    """Processor, cores and memory: measurements of equal ones may be compared."""
    gigabytes = round(psutil.virtual_memory().total / 1e9)
    return f"{_processor()}, {os.cpu_count()} cores, {gigabytes} GB"


def pace() -> float:
    """The seconds that a fixed piece of Python takes: more on a machine that is busy or slower."""
    start = time.perf_counter()
    for _ in range(_STEPS):
        pass
    return time.perf_counter() - start


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(filter(None, [*names, platform.processor(), platform.machine()]), "unknown")


def _git(*arguments: str) -> str | None:
    """What git says about the package's folder; None if it fails or is missing."""
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

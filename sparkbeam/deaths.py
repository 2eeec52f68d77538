"""A worker that died instead of raising: what it was at, and why, as far as that can be told."""

import re
from collections.abc import Callable
from pathlib import Path

from sparkbeam.errors import PipelineFailed
from sparkbeam.upstream.spark import DIED, OF_MEMORY

_VMSTAT = Path("/proc/vmstat")

_FATAL = re.compile(r"Fatal Python error: (?P<what>[^\n]*)\n(?P<frames>.*)", re.DOTALL)
_FRAME = re.compile(r'^ *(File "[^"]*", line \d+ in \S+)', re.MULTILINE)
_LIBRARIES = re.compile(r"/(apache_beam|sparkbeam|pyspark|threading\.py)")
_MOST_FRAMES = 5


def oom_kills(vmstat: Path = _VMSTAT) -> int:
    """How many processes Linux has killed for lack of memory since it started; 0 elsewhere."""
    try:
        found = re.search(r"^oom_kill (\d+)$", vmstat.read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found.group(1)) if found else 0


class Deaths:
    """Made when a run starts, asked when it has failed.

    Args:
        steps: gives the labels at which workers were that have died, the first one first.
        kills: see :func:`oom_kills`.
    """

    def __init__(
        self, steps: Callable[[], list[str]] = list, kills: Callable[[], int] = oom_kills
    ) -> None:
        self._steps = steps
        self._kills = kills
        self._before = kills()

    def explained(self, text: str) -> PipelineFailed | None:
        """The error to raise for Spark's text; None if it tells of no worker that died."""
        if DIED.search(text) is None:
            return None
        label = next(iter(self._steps()), None)
        step = "A step failed" if label is None else f"Step '{label}' failed"
        if self._kills() > self._before or OF_MEMORY.search(text):
            return PipelineFailed(
                f"{step}: the worker that ran it was killed for lack of memory. Let fewer tasks "
                "run at once (--spark_master=local[2], spark.executor.cores), give workers more "
                "memory (spark.executor.memoryOverhead on a cluster), or make elements smaller.",
                label,
            )
        fatal = _FATAL.search(text)
        if fatal is not None:
            frames = _FRAME.findall(fatal["frames"])
            own = [frame for frame in frames if not _LIBRARIES.search(frame)] or frames
            lines = [f"{step}: Python itself crashed in the worker that ran it: {fatal['what']}"]
            lines += [f"  {frame}" for frame in own[:_MOST_FRAMES]]
            lines.append("Look into the native code that is called there, and its version.")
            return PipelineFailed("\n".join(lines), label)
        return PipelineFailed(
            f"{step}: the worker that ran it ended without an error of Python. Something killed it "
            "(as the system does where memory runs out), or native code or os._exit ended it: "
            "what it wrote last is above, or in the logs of Spark's executors.",
            label,
        )

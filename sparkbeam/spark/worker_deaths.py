"""Diagnosis of workers and JVMs that died without an error."""

import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from sparkbeam.errors import PipelineFailed
from sparkbeam.upstream.spark import (
    DIED,
    GATEWAY_GONE,
    HEAP_FULL,
    JVM_GONE,
    OF_MEMORY,
    OUT_OF_HEAP,
)
from sparkbeam.wire.heap import Heap, shown_bytes

_VMSTAT = Path("/proc/vmstat")

_FATAL = re.compile(r"Fatal Python error: (?P<what>[^\n]*)\n(?P<frames>.*)", re.DOTALL)
_FRAME = re.compile(r'^ *(File "[^"]*", line \d+ in \S+)', re.MULTILINE)
_LIBRARIES = re.compile(r"/(apache_beam|sparkbeam|pyspark|threading\.py)")
_MOST_FRAMES = 5
_JVM_SECONDS = 5.0


def oom_kills(vmstat: Path = _VMSTAT) -> int:
    """Return the number of processes killed by Linux for lack of memory; 0 elsewhere."""
    try:
        found = re.search(r"^oom_kill (\d+)$", vmstat.read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found.group(1)) if found else 0


def exit_code(process: Any, seconds: float = 0.0) -> int | None:
    """Return the exit code of a JVM; None if it is running or unknown.

    Args:
        process: of the JVM; None if unknown.
        seconds: how long to wait for its exit.
    """
    if process is None:
        return None
    try:
        code: int = process.wait(seconds)
    except (subprocess.TimeoutExpired, OSError):
        return None
    return code


class Deaths:
    """Deaths of processes during a run; created at its start.

    Args:
        steps: return the labels at which workers died, the first one first.
        kills: see :func:`oom_kills`.
        at: return the labels at which workers currently are.
        jvm: return the exit code of the driver's JVM, waiting the given seconds; None if it runs.
        heap: the memory of the JVM that receives the workers' rows.
    """

    def __init__(
        self,
        steps: Callable[[], list[str]] = list,
        kills: Callable[[], int] = oom_kills,
        *,
        at: Callable[[], list[str]] = list,
        jvm: Callable[[float], int | None] = lambda _: None,
        heap: Heap | None = None,
    ) -> None:
        self._steps = steps
        self._kills = kills
        self._before = kills()
        self._at = at
        self._jvm = jvm
        self._heap = heap or Heap()

    def explained(self, text: str) -> PipelineFailed | None:
        """Return the error for Spark's text; None if no process died."""
        # The JVM closes its connections before it exits.
        seconds = _JVM_SECONDS if GATEWAY_GONE.search(text) else 0.0
        code = self._jvm(seconds) if JVM_GONE.search(text) else None
        if code is not None:
            return self._of_jvm(code)
        if HEAP_FULL.search(text):
            return self._of_heap("Spark's JVM has no memory left")
        if DIED.search(text) is None:
            return None
        label, step = self._step()
        if self._kills() > self._before or OF_MEMORY.search(text):
            return PipelineFailed(
                f"{step}: the worker that ran it was killed for lack of memory. Run fewer tasks "
                "at once (--spark_master=local[2], spark.executor.cores), give workers more "
                "memory (spark.executor.memoryOverhead on a cluster), or make elements smaller.",
                label,
            )
        fatal = _FATAL.search(text)
        if fatal is not None:
            frames = _FRAME.findall(fatal["frames"])
            own = [frame for frame in frames if not _LIBRARIES.search(frame)] or frames
            lines = [f"{step}: Python itself crashed in the worker that ran it: {fatal['what']}"]
            lines += [f"  {frame}" for frame in own[:_MOST_FRAMES]]
            lines.append("Check the native code called there, and its version.")
            return PipelineFailed("\n".join(lines), label)
        return PipelineFailed(
            f"{step}: the worker that ran it ended without a Python error. It was killed (for "
            "example for lack of memory), or native code or os._exit ended it: its last output is "
            "above, or in the logs of Spark's executors.",
            label,
        )

    def _step(self, at: Iterable[str] = ()) -> tuple[str | None, str]:
        """Return the label of the step at which a process died, and the start of a message.

        Args:
            at: the current steps of workers, if these may be the cause.
        """
        label = next(iter([*self._steps(), *at]), None)
        return label, "A step failed" if label is None else f"Step '{label}' failed"

    def _of_jvm(self, code: int) -> PipelineFailed:
        """Return the error for an exit of the driver's JVM."""
        if code == OUT_OF_HEAP:
            return self._of_heap("Spark's JVM has ended because it had no memory left")
        killed = code < 0 and self._kills() > self._before
        label, step = self._step(self._at())
        return PipelineFailed(
            f"{step}: Spark's JVM has ended (exit code {code}). "
            + (
                "The system killed it for lack of memory: run fewer tasks at once "
                "(--spark_master=local[2]), or lower spark.driver.memory."
                if killed
                else "Its last output is above. Start the program again."
            ),
            label,
        )

    def _of_heap(self, what: str) -> PipelineFailed:
        heap = self._heap
        has = f" of its {shown_bytes(heap.size)} ({heap.setting})" if heap.size is not None else ""
        label, step = self._step(self._at())
        return PipelineFailed(
            f"{step}: {what}{has}: an element, or the data of several tasks, is too large for "
            f"it. Give it more memory (--spark_conf={heap.setting}=4g), run fewer tasks at once "
            "(--spark_master=local[2], spark.executor.cores), or make elements smaller.",
            label,
        )

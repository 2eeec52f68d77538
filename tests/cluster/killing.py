"""Kills what a streaming program runs on, and sees how it goes on.

The program is a process of its own, started again over its checkpoint whenever it has died, as a
supervisor would. What it has committed is seen from outside, in its checkpoint.
"""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import chained
import matched
import mixed
import ordered
import paced
import psutil
import session_panes
from command import kill, launch

PROGRAMS = {
    "chained": chained,
    "sessions": session_panes,
    "ordered": ordered,
    "sorted": matched,
    "mixed": mixed,
}
"""Each is a module with ``build``, ``expected`` and ``written``."""

DRIVER, EXECUTOR, WORKER = "driver", "executor", "Python worker"
KINDS = (DRIVER, EXECUTOR, WORKER)
MEMORY, DISK, STALL = "memory of a Python worker", "disk", "stalled Python worker"
"""Further harm: the kernel kills a worker that has no memory left; no room is left on the file
system of the checkpoint for a while; a worker stands still for a while. The first two need root."""

_MEMORY_GROUP = Path("/sys/fs/cgroup/memory/sparkbeam-harm")
_FULL_SECONDS = 10.0
_STALL_SECONDS = 15.0
_EXECUTOR_CLASS = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_POLL_SECONDS = 0.1
_MOST_STARTS_IN_VAIN = 5


class Ended(Exception):
    """The program has done all its work."""


@dataclass(frozen=True)
class Kill:
    """What was killed, and what came of it.

    Attributes:
        kind: one of :data:`KINDS`, or another harm.
        second: when, since the start of all.
        batch: the micro-batch that was running, or had been the last to run.
        back: after how many seconds the next micro-batch was committed; None if none was.
        restarts: how often the program was started again until then.
        reruns: how often the runner started the query again within the program.
    """

    kind: str
    second: float
    batch: int
    back: float | None
    restarts: int
    reruns: int


class Killing:
    """A program of the folder ``drivers`` on a cluster; a context manager that ends it.

    Args:
        program: one of :data:`PROGRAMS`, or another module as these are.
        folder: where its checkpoint, its output and its log are.
        options: of the pipeline, such as the master.
        events: how many events it has.
        rate: how many of them a second, while it runs.
        seconds: how long it may take in all.

    Attributes:
        output: where the program writes to, if it writes files.
    """

    def __init__(
        self,
        program: ModuleType,
        folder: Path,
        options: Sequence[str],
        *,
        events: int,
        rate: float,
        seconds: float,
    ) -> None:
        self._program: Any = program
        self._folder = folder
        self.output = folder / "output"
        self._events = events
        self._command = [
            *(sys.executable, str(self._program.__file__)),
            *(str(events), str(rate), str(self.output)),
            *(*options, *getattr(self._program, "OPTIONS", ())),
            f"--spark_py_files={paced.__file__}",
            f"--checkpoint_location={folder / 'checkpoint'}",
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._began = time.monotonic()
        self._until = self._began + seconds
        self._starts = 0
        self._starts_in_vain = 0
        self._seen = -1

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._kill_program()

    def run(
        self,
        kills: Iterable[tuple[str, float]],
        chance: random.Random,
        told: Callable[[Kill], object] = lambda _: None,
    ) -> list[Kill]:
        """Lets the program run to its end, with as many of the kills as that leaves time for.

        Args:
            kills: the kind of each, and how many seconds after a micro-batch has been committed.
            chance: picks the victims.
            told: gets to know each kill, once the program is going again.

        Raises:
            TimeoutError: it took too long.
            RuntimeError: the program fails at each start.
        """
        done: list[Kill] = []
        try:
            self._wait_for_commit(self.committed())
            for kind, wait in kills:
                self._pause(wait)
                done.append(self._killed(kind, chance))
                told(done[-1])
            self._wait(lambda: False)
        except Ended:
            return done
        raise AssertionError("the program ends before the wait for it does")

    def differences(self) -> tuple[Counter[tuple[Any, ...]], Counter[tuple[Any, ...]]]:
        """The rows that are missing, and those that should not be there or are there too often."""
        found = self._program.written(self.output)
        right = self._program.expected(self._events)
        return right - found, found - right

    def committed(self) -> int:
        """The number of the last micro-batch that has been committed; -1 if none has."""
        return self._last("commits")

    def log(self) -> str:
        """The end of what the program has said."""
        return self._log.read_text(errors="replace")[-5000:]

    def _reruns(self) -> int:
        """How often the runner has told that it starts the query again."""
        return self._log.read_text(errors="replace").count("could not repair the loss")

    @property
    def _log(self) -> Path:
        return self._folder / "program.log"

    def _last(self, name: str) -> int:
        """The largest number of a file in one of Spark's logs."""
        files = (self._folder / "checkpoint" / name).glob("[0-9]*")
        return max((int(file.name) for file in files if file.name.isdecimal()), default=-1)

    def _start(self) -> None:
        self._starts += 1
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        self._process = launch(self._command, self._log, env=environment)

    def _kill_program(self) -> None:
        """Kills the program's Python and its JVM, which are a group of processes."""
        assert self._process is not None
        kill(self._process)

    def _tend(self) -> None:
        """Starts the program again if it has died.

        Raises:
            Ended: it has not died, but ended.
        """
        assert self._process is not None
        ended = self._process.poll()
        if ended == 0:
            raise Ended
        if ended is not None:
            last = self.committed()
            self._starts_in_vain = self._starts_in_vain + 1 if last == self._seen else 0
            self._seen = last
            if self._starts_in_vain > _MOST_STARTS_IN_VAIN:
                raise RuntimeError(f"The program fails at each start:\n{self.log()}")
            self._start()

    def _wait(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._tend()
            if time.monotonic() > self._until:
                raise TimeoutError(f"This takes too long:\n{self.log()}")
            time.sleep(_POLL_SECONDS)

    def _wait_for_commit(self, last: int) -> None:
        self._wait(lambda: self.committed() > last)

    def _killed(self, kind: str, chance: random.Random) -> Kill:
        starts, reruns, last = self._starts, self._reruns(), self.committed()
        batch, moment = self._last("offsets"), time.monotonic()
        self._harm(kind, chance)
        back: float | None = None
        try:
            self._wait_for_commit(last)
            back = time.monotonic() - moment
        except Ended:
            if self.committed() > last:
                back = time.monotonic() - moment
        return Kill(
            kind,
            second=moment - self._began,
            batch=batch,
            back=back,
            restarts=self._starts - starts,
            reruns=self._reruns() - reruns,
        )

    def _harm(self, kind: str, chance: random.Random) -> None:
        if kind == DRIVER:
            self._kill_program()
        elif kind == DISK:
            self._fill_disk()
        else:
            victim = self._one_of(_executors if kind == EXECUTOR else _workers, chance)
            with suppress(psutil.NoSuchProcess):
                if kind == MEMORY:
                    _take_memory(victim)
                elif kind == STALL:
                    self._stall(victim)
                else:
                    victim.kill()

    def _fill_disk(self) -> None:
        """Leaves no room on the file system of the checkpoint for a while."""
        filler = self._folder / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 12))
        self._pause(_FULL_SECONDS)
        filler.unlink()

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self._wait(lambda: time.monotonic() >= until)

    def _stall(self, victim: psutil.Process) -> None:
        """Stops a process for a while."""
        victim.suspend()
        self._pause(_STALL_SECONDS)
        victim.resume()

    def _one_of(
        self, find: Callable[[], list[psutil.Process]], chance: random.Random
    ) -> psutil.Process:
        found: list[psutil.Process] = []

        def look() -> bool:
            with suppress(psutil.NoSuchProcess):
                found.extend(find())
            return bool(found)

        self._wait(look)
        return chance.choice(found)


def _take_memory(victim: psutil.Process) -> None:
    """Lets the kernel kill a process for the next memory that it asks for."""
    _MEMORY_GROUP.mkdir(exist_ok=True)
    (_MEMORY_GROUP / "memory.limit_in_bytes").write_text("65536")
    (_MEMORY_GROUP / "cgroup.procs").write_text(str(victim.pid))


def _executors() -> list[psutil.Process]:
    """The JVMs of the executors of all clusters below this process."""
    return [
        process
        for process in psutil.Process().children(recursive=True)
        if process.name() == "java" and _EXECUTOR_CLASS in process.cmdline()
    ]


def _workers() -> list[psutil.Process]:
    """The Python workers of the executors, without the daemons that they are forked from."""
    daemons = [daemon for executor in _executors() for daemon in executor.children()]
    return [worker for daemon in daemons for worker in daemon.children()]

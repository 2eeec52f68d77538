"""Examination of programs, each in a process of its own: ``python -m sparkbeam.cli.examining``.

A program runs to its end; its pipelines are planned and not executed. What is found is written
to a file, a line of JSON for each pipeline as soon as it is known, and one for the end. The
processes are forks of one that has imported Beam, which takes seconds.
"""

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparkbeam.cli import main_program, yaml_file
from sparkbeam.cli.made_pipelines import watch_pipelines
from sparkbeam.cli.programs import YAML_SUFFIXES
from sparkbeam.cli.replaced_runners import on_our_runner
from sparkbeam.errors import SparkBeamError

if TYPE_CHECKING:
    from sparkbeam.explain.findings import Finding


YAML = "YAML"
"""Kind of an error in a pipeline of Beam YAML."""


def examine(file: Path, name: str, arguments: Sequence[str], *, is_module: bool) -> None:
    """Run a program and write what is found of its pipelines."""
    from sparkbeam.explain.findings import Finding, findings, named
    from sparkbeam.spark.session import SparkNotStartedError, unstarted

    lines = _Lines(file)
    with (
        findings.collected(lines),
        on_our_runner(name, is_told=False),
        unstarted(),
        watch_pipelines() as pipelines,
    ):
        end: dict[str, Any] = {}
        try:
            if not is_module and name.endswith(YAML_SUFFIXES):
                yaml_file.start(name, arguments)
            else:
                main_program.start(name, arguments, is_module=is_module)
            for pipeline in pipelines.waiting():
                pipeline.run()
        except SystemExit as exit:
            end = {"code": exit.code if isinstance(exit.code, int) else int(exit.code is not None)}
        except SparkBeamError as error:
            end = {"findings": [asdict(Finding.of(error))]}
        except SparkNotStartedError as error:
            end = {"asks_spark": error.label}
        except click.ClickException as error:
            end = {"error": error.format_message(), "kind": YAML, "may_lack_results": False}
            if isinstance(error.__cause__, SparkBeamError):
                end = {"findings": [asdict(Finding.of(error.__cause__))]}
        except BaseException as error:
            end = {
                "error": named(error),
                "kind": type(error).__name__,
                "may_lack_results": pipelines.may_lack_results(error),
            }
        names = list(vars(sys.modules["__main__"]).values())
        homes = (getattr(of, "__module__", None) or getattr(of, "__name__", "") for of in names)
        lines.write(end=end, is_of_beam=any(str(at).startswith("apache_beam") for at in homes))


class _Lines(list["tuple[Finding, ...]"]):
    """Findings of pipelines, written to a file as they come."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def append(self, item: "tuple[Finding, ...]") -> None:
        super().append(item)
        self.write(findings=[asdict(each) for each in item])

    def write(self, **content: Any) -> None:
        """Write a line of JSON."""
        with self._file.open("a") as lines:
            lines.write(f"{json.dumps(content)}\n")


@dataclass(frozen=True)
class Task:
    """Programs to examine, each in a process of its own.

    Attributes:
        programs: files or modules.
        seconds: the time limit of each program.
        at_once: how many of them run at the same time.
    """

    programs: tuple[str, ...]
    arguments: tuple[str, ...]
    is_module: bool
    seconds: float
    at_once: int


def examine_all(task: Task, ended: Callable[[int, dict[str, Any]], None]) -> None:
    """Examine programs in forks of this process.

    Args:
        ended: called for each program with its number and the contents of an
            :class:`~sparkbeam.cli.checking.Examined`.
    """
    waiting = list(enumerate(task.programs))[::-1]
    running: dict[int, tuple[int, float]] = {}
    with tempfile.TemporaryDirectory(prefix="sparkbeam-check-") as folder:
        try:
            while waiting or running:
                while waiting and len(running) < task.at_once:
                    number, program = waiting.pop()
                    pid = _forked(Path(folder, str(number)), program, task)
                    running[pid] = number, time.monotonic() + task.seconds
                for pid, (number, deadline) in [*running.items()]:
                    found, status = os.waitpid(pid, os.WNOHANG)
                    if found or time.monotonic() > deadline:
                        code = os.waitstatus_to_exitcode(status) if found else None
                        _end(pid, is_known=bool(found))
                        del running[pid]
                        ended(number, _outcome(Path(folder, str(number)), code))
                time.sleep(_POLL_SECONDS)
        finally:
            for pid in running:
                _end(pid, is_known=False)


_POLL_SECONDS = 0.01
_TAIL = 8 << 10
_ERRORS = ".errors"


def _forked(file: Path, program: str, task: Task) -> int:
    """Examine a program in a fork, and return its process id."""
    errors = file.with_suffix(_ERRORS)
    errors.touch()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for target, source in ((0, nothing), (1, nothing), (2, os.open(errors, os.O_WRONLY))):
            os.dup2(source, target)
        examine(file, program, task.arguments, is_module=task.is_module)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)  # Threads of the program are not waited for.


def _end(pid: int, *, is_known: bool) -> None:
    """End a process with all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if not is_known:
        os.waitpid(pid, 0)


def _outcome(file: Path, code: int | None) -> dict[str, Any]:
    text = file.read_text() if file.exists() else ""
    # A process that is ended may leave the last line unfinished.
    lines = [json.loads(each) for each in text.splitlines(keepends=True) if each.endswith("\n")]
    with file.with_suffix(_ERRORS).open("rb") as errors:
        errors.seek(max(0, os.fstat(errors.fileno()).st_size - _TAIL))
        printed = errors.read().decode(errors="replace").split("\n")
    last_line = next((each.strip() for each in reversed(printed) if each.strip()), "")
    return {"lines": lines, "code": code, "last_line": last_line}


def _warm() -> None:
    """Import what the examination of any program needs."""
    import apache_beam as beam

    from sparkbeam.explain.findings import findings
    from sparkbeam.runner.spark_runner import SparkRunner

    with findings.collected():
        pipeline = beam.Pipeline(SparkRunner(), argv=[])
        _ = pipeline | beam.Create([("a", 1)]) | beam.CombinePerKey(sum) | beam.Map(str)
        pipeline.run()


def _main() -> None:
    """Examine the programs of a task on standard input; print a line of JSON for each."""
    content = json.loads(sys.stdin.readline())
    output = os.fdopen(os.dup(1), "w")
    _warm()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    def ended(number: int, outcome: dict[str, Any]) -> None:
        print(json.dumps([number, outcome]), file=output, flush=True)

    examine_all(Task(**content), ended)


if __name__ == "__main__":
    _main()

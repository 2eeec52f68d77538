"""The command ``sparkbeam`` in this process, programs for it, and programs in processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any, TypeAlias

from click.testing import CliRunner, Result

from sparkbeam.cli.commands import main

Done: TypeAlias = "subprocess.CompletedProcess[str]"


def command(*arguments: object) -> Result:
    """Run the command with arguments."""
    return CliRunner().invoke(main, [*map(str, arguments)])


def answer(result: Result) -> list[str]:
    """Return the exit code of a command, and what it has printed and said."""
    said = [f"stderr: {line}" for line in result.stderr.splitlines()]
    return [f"exit code {result.exit_code}", *result.stdout.splitlines(), *said]


def program(text: str, name: str = "program.py") -> str:
    """Write a program into the current folder, and return its name."""
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(dedent(text), encoding="utf-8")
    return name


def attempt(
    *arguments: object,
    folder: Path | None = None,
    given: str | None = None,
    environment: Mapping[str, str] = os.environ,
    more: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> Done:
    """Run a program in a process, which may fail.

    Args:
        arguments: of the command line, the program first.
        folder: its working directory.
        given: its standard input.
        environment: its variables.
        more: of them.
        seconds: the longest time that it may take.
    """
    return subprocess.run(
        [*map(str, arguments)],
        cwd=folder,
        env={**environment, **(more or {})},
        input=given,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def execute(*arguments: object, folder: Path | None = None, **environment: str) -> Done:
    """Run a program in a process, which has to succeed, with more variables in its environment."""
    done = attempt(*arguments, folder=folder, more=environment, seconds=290)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done


def python(*arguments: object, folder: Path | None = None, **environment: str) -> Done:
    """Run Python as :func:`execute` does."""
    return execute(sys.executable, *arguments, folder=folder, **environment)


def launch(command: Iterable[object], log: Path, **how: Any) -> "subprocess.Popen[bytes]":
    """Start a program that leads a group of processes, and adds what it prints to a file."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [*map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **how,
        )


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a program with all that it has started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def with_paths() -> dict[str, str]:
    """Return the variable with which a program finds the modules that this process finds."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

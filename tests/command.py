"""The command ``sparkbeam`` in this process, programs for it, and programs in processes."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from click.testing import CliRunner, Result

from sparkbeam.cli.commands import main


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


def execute(
    *arguments: object, folder: Path | None = None, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run a program in a process, which has to succeed, with more variables in its environment."""
    done = subprocess.run(
        [*map(str, arguments)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=290,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return done


def python(
    *arguments: object, folder: Path | None = None, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run Python as :func:`execute` does."""
    return execute(sys.executable, *arguments, folder=folder, **environment)

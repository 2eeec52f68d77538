"""The command ``sparkbeam`` in this process, and programs for it."""

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

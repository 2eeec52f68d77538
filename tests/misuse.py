"""Tables of wrong calls and their errors, in the form of doctest, with the error as the result.

>>> ReadFromSpark("")
ConfigurationError: format='' is empty.

A table is the ``.txt`` file of a test module, whose names its calls use. ``...`` in an error
stands for what differs from run to run. Lines after an empty line are headings.
"""

import doctest
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest
from click.testing import CliRunner, Result

from sparkbeam.cli import programs
from sparkbeam.cli.commands import main

Call = doctest.Example


def calls(module: str) -> list[Call]:
    """Return the calls of the table of a module, given as its ``__file__``."""
    return doctest.DocTestParser().get_examples(Path(module).with_suffix(".txt").read_text())


def table(module: str) -> pytest.MarkDecorator:
    """Parametrize a test with each ``call`` of the table of a module."""
    found = calls(module)
    return pytest.mark.parametrize("call", found, ids=[f"line {c.lineno + 1}" for c in found])


def error_of(call: Call, names: Mapping[str, Any]) -> tuple[Exception | None, str]:
    """Return the error that a call raises, and how a table has it."""
    try:
        exec(call.source, dict(names))
    except Exception as error:
        return error, f"{type(error).__name__}: {error}\n"
    return None, "no error\n"


def compare(call: Call, found: str) -> None:
    """Assert that an error is the one in the table, with the whole message."""
    if not doctest.OutputChecker().check_output(call.want, found, doctest.ELLIPSIS):
        assert found == call.want, call.source


def check(call: Call, names: Mapping[str, Any]) -> Exception | None:
    """Assert that a call raises its error; return the error."""
    error, found = error_of(call, names)
    compare(call, found)
    return error


class Error(Exception):
    """The line that a command says of an error."""


def command_error(result: Result, *codes: int) -> Error:
    """Return the error that a command says, below its usage, with one of the exit codes."""
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in codes
    *usage, line = filter(None, result.stderr.strip().splitlines())
    assert all(one.startswith(("Usage: ", "Try '")) for one in usage), result.stderr
    assert line.startswith("Error: "), result.stderr
    return Error(line.removeprefix("Error: "))


def sparkbeam(line: str) -> NoReturn:
    """Run the command ``sparkbeam`` with the words of a line, which are wrong."""
    result = CliRunner().invoke(main, shlex.split(line))
    programs.FOR_GOOD.close()  # What a command changes in its process is not for the next test.
    raise command_error(result, 2)


@contextmanager
def without(package: str, *users: str) -> Iterator[None]:
    """Hide a package, as if it was not installed, and import the modules that use it anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, package, None)
        for module in users:
            patch.delitem(sys.modules, module, raising=False)
        yield

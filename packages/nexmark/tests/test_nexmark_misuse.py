"""Wrong settings, options and command lines of Nexmark, in the table beside this module."""

import shlex
from pathlib import Path
from typing import NoReturn

import misuse
import pytest
from click.testing import CliRunner

from beam_nexmark.configuration import Configuration
from beam_nexmark.datasource import NexmarkDataSource
from beam_nexmark.engine import prepared
from sparkbeam.cli.commands import main


class Error(Exception):
    """The one line that a command says of an error."""


def nexmark(line: str) -> NoReturn:
    """Run ``sparkbeam nexmark`` in a folder with the file ``text``."""
    result = CliRunner().invoke(main, ["nexmark", *shlex.split(line)])
    assert isinstance(result.exception, SystemExit), result.exception
    (told,) = result.stderr.strip().splitlines()
    raise Error(told.removeprefix("Error: "))


@misuse.table(__file__)
def test_a_wrong_call_is_an_error(
    call: misuse.Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("This is a text. " * 100)
    misuse.check(call, globals())

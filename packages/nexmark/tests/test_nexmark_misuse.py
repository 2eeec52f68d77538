"""Wrong settings, options and command lines of Nexmark, in the table beside this module."""

from pathlib import Path
from typing import NoReturn

import misuse
import pytest
from runs import a_run

from beam_nexmark.configuration import Configuration
from beam_nexmark.datasource import NexmarkDataSource
from beam_nexmark.engine import prepared
from beam_nexmark.report import render


def nexmark(line: str) -> NoReturn:
    """Run ``sparkbeam nexmark`` in a folder with the files ``text`` and ``newer.jsonl``."""
    misuse.sparkbeam(f"nexmark {line}")


@misuse.table(__file__)
def test_a_wrong_call_is_an_error(
    call: misuse.Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("This is a text. " * 100)
    Path("newer.jsonl").write_text('{"schema": 9}')
    misuse.check(call, globals())

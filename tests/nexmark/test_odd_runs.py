"""Files of runs and histories in which somebody has put something else."""

import json
import sqlite3
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from runs import a_run

from sparkbeam.cli.commands import main
from sparkbeam.nexmark import history
from sparkbeam.nexmark.record import write_json

CONTENTS: dict[str, bytes] = {
    "nothing": b"",
    "a list": b"[]",
    "null": b"null",
    "a number": b"1",
    "a text": b'""',
    "an object": b"{}",
    "half": b'{"schema": 3, "started"',
    "deeply nested lists": b"[" * 100_000,
    "deeply nested objects": b'{"a":' * 3_000 + b"1" + b"}" * 3_000,
    "no UTF-8": b"\xff\xfe\x00{}",
    "many digits": b"9" * 5_000,
    "an object with many digits": b'{"schema": ' + b"9" * 5_000 + b"}",
}
ODD: list[Any] = [
    None,
    [],
    {},
    "",
    "x\0\x1b[2J",
    -1,
    1 << 70,
    1.5,
    True,
    1e300,
    {"a": [[]]},
    "[/red]",
]


def told(*arguments: str) -> None:
    found = CliRunner().invoke(main, ["nexmark", *arguments])
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    assert found.exit_code in (0, 1, 2)
    assert "\x1b" not in found.output


def told_of(path: Path) -> None:
    told("report", "--history", str(path), str(path.with_suffix(".html")))


@pytest.mark.parametrize("suffix", ["db", "jsonl"])
@pytest.mark.parametrize("what", [*CONTENTS, "a folder", "a link to nothing"])
def test_a_report_says_what_is_wrong(tmp_path: Path, what: str, suffix: str) -> None:
    path = tmp_path / f"odd.{suffix}"
    if what in CONTENTS:
        path.write_bytes(CONTENTS[what])
    elif what == "a folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere")
    told_of(path)


def test_each_part_of_a_run_may_be_anything(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    write_json([a_run()], path)
    content = json.loads(path.read_text())
    for name in content:
        for to in ODD[len(name) % 3 :: 3]:
            path.write_text(json.dumps({**content, name: to}))
            told_of(path)


def test_each_column_of_a_history_may_be_anything(tmp_path: Path) -> None:
    for name in asdict(a_run()):
        path = tmp_path / f"{name}.db"
        history.append([a_run()], path)
        for to in (None, "x\0\x1b[2J", -1, b"\xff"):
            with sqlite3.connect(path) as connection:
                connection.execute(f"UPDATE runs SET {name} = ?", (to,))
            connection.close()
            told_of(path)

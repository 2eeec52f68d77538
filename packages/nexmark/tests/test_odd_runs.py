"""Files of runs and histories in which somebody has put something else."""

import json
import sqlite3
from dataclasses import asdict
from pathlib import Path

import pytest
from odd_files import ODD_CONTENTS, ODD_VALUES, says_what_is_wrong
from runs import a_run

from beam_nexmark import history
from beam_nexmark.record import write_json


def told_of(path: Path) -> None:
    says_what_is_wrong("nexmark", "report", "--history", str(path), str(path.with_suffix(".html")))


@pytest.mark.parametrize("suffix", ["db", "jsonl"])
@pytest.mark.parametrize("what", [*ODD_CONTENTS, "a folder", "a link to nothing"])
def test_a_report_says_what_is_wrong(tmp_path: Path, what: str, suffix: str) -> None:
    path = tmp_path / f"odd.{suffix}"
    if what in ODD_CONTENTS:
        path.write_bytes(ODD_CONTENTS[what])
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
        for to in ODD_VALUES[len(name) % 3 :: 3]:
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

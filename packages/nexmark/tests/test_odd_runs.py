"""Histories in which somebody has put something else."""

import json
from pathlib import Path

import pytest
from odd_files import ODD_CONTENTS, ODD_VALUES, says_what_is_wrong
from runs import a_run

from beam_nexmark import history


def told_of(path: Path) -> None:
    says_what_is_wrong("nexmark", "report", "--history", str(path), str(path.with_suffix(".html")))


@pytest.mark.parametrize("what", [*ODD_CONTENTS, "a folder", "a link to nothing"])
def test_a_report_says_what_is_wrong(tmp_path: Path, what: str) -> None:
    path = tmp_path / "odd.jsonl"
    if what in ODD_CONTENTS:
        path.write_bytes(ODD_CONTENTS[what])
    elif what == "a folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere")
    told_of(path)


def test_each_part_of_a_run_may_be_anything(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    history.append([a_run()], path)
    content = json.loads(path.read_text())
    for name in content:
        for to in ODD_VALUES[len(name) % 3 :: 3]:
            path.write_text(json.dumps({**content, name: to}))
            told_of(path)

"""Histories in which somebody has put something else."""

import json
from pathlib import Path

from odd_files import ODD_VALUES, says_what_is_wrong
from runs import a_run

from beam_nexmark import history


def test_each_part_of_a_run_may_be_anything(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    history.append([a_run()], path)
    content = json.loads(path.read_text())
    for name in content:
        for to in ODD_VALUES[len(name) % 3 :: 3]:
            path.write_text(json.dumps({**content, name: to}))
            page = str(path.with_suffix(".html"))
            says_what_is_wrong("nexmark", "report", "--history", str(path), page)

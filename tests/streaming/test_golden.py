"""Checkpoints that were written by the version that their name tells."""

import json
from pathlib import Path

import golden
import pytest

from sparkbeam.plan.fingerprint import READABLE_FORMATS, STATE_FORMAT
from sparkbeam.streaming import source

STORED = sorted(golden.FOLDER.glob("*.json"))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_checkpoint_is_gone_on_from(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_MOST_ROUNDS", golden.ROUNDS)
    found, expected = golden.resume(path, tmp_path)
    assert len(expected) > 20
    assert found == sorted(expected)


def test_there_is_one_of_each_format_that_can_be_read() -> None:
    pipelines = [json.loads(p.read_text())["files"]["sparkbeam/pipeline.json"] for p in STORED]
    assert {json.loads(pipeline)["format"] for pipeline in pipelines} >= READABLE_FORMATS
    assert STATE_FORMAT in READABLE_FORMATS

"""A checkpoint that was written before, of the state format that stands."""

import json
from pathlib import Path

import golden
import pytest
from in_process import rounds

from sparkbeam.plan.fingerprint import STATE_FORMAT
from sparkbeam.upstream.spark import has_row_state


@rounds(golden.ROUNDS)
@pytest.mark.skipif(not has_row_state(), reason="the checkpoint has the state of rows")
def test_the_stored_checkpoint_is_gone_on_from(tmp_path: Path) -> None:
    found, expected = golden.resume(golden.STORED, tmp_path)
    assert len(expected) > 20
    assert found == sorted(expected)


def test_it_is_of_the_format_that_is_written() -> None:
    pipeline = json.loads(golden.STORED.read_text())["files"]["sparkbeam/pipeline.json"]
    assert json.loads(pipeline)["format"] == STATE_FORMAT

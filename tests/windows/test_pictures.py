"""The pictures of docs/windows.md are those of a run."""

import sys
from pathlib import Path

import pytest
from in_process_batch import BatchRunner

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
import pictures


@pytest.mark.parametrize("name", pictures.KINDS)
def test_a_picture_shows_the_windows_of_a_run(name: str) -> None:
    title, window_fn = pictures.KINDS[name]
    drawn = pictures.picture(title, pictures.bars(window_fn, BatchRunner()))
    stored = pictures.FOLDER / f"windows-{name}.svg"
    assert stored.read_text() == drawn, "python docs/pictures.py draws it anew"

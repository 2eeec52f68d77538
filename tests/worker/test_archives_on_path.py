"""Archives on the path of Python workers."""

import importlib
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sparkbeam.worker.archives_on_path import keep_directories, note_archives


def test_an_archive_on_the_path_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archives = [tmp_path / "before.zip", tmp_path / "later.zip"]
    for archive in archives:
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr(f"in_{archive.stem}.py", "X = 1")
    monkeypatch.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
    monkeypatch.syspath_prepend(str(archives[0]))
    assert importlib.import_module("in_before").X == 1
    note_archives()
    keep_directories()
    archives[0].unlink()
    importlib.invalidate_caches()
    finder: Any = sys.path_importer_cache[str(archives[0])]
    # Who reads the archive again finds nothing, and this is an error then.
    assert finder.is_package("in_before") is False
    # What comes with a task is found all the same.
    monkeypatch.syspath_prepend(str(archives[1]))
    assert importlib.import_module("in_later").X == 1


def test_an_archive_that_has_changed_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "changing.zip"
    monkeypatch.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
    monkeypatch.syspath_prepend(str(archive))
    for names in (["one"], ["one", "two"], ["one", "two", "three"]):
        with zipfile.ZipFile(archive, "w") as file:
            for name in names:
                file.writestr(f"in_changing_{name}.py", "X = 1")
        keep_directories()
        importlib.invalidate_caches()
        note_archives()
        assert importlib.import_module(f"in_changing_{names[-1]}").X == 1

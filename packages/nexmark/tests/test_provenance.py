"""From which commit, and from which machine, a measurement is."""

import subprocess
from pathlib import Path

import pytest

from beam_nexmark import provenance


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a package in it, which is taken for ours."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    monkeypatch.setattr(provenance, "_FOLDER", package)
    return package


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgSign=false")
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True)


def test_a_changed_file_is_marked_and_nothing_elsewhere(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = provenance.revision()
    assert clean is not None
    assert len(clean) == 40
    (clone.parent / "notes.txt").touch()
    monkeypatch.setenv("GIT_DIR", "/none")
    assert provenance.revision() == clean
    (clone / "__init__.py").write_text("new = 1")
    assert provenance.revision() == f"{clean}+"


def test_another_programs_repository_and_no_git_are_none(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = clone.parent / "site-packages"
    installed.mkdir()
    (installed / "__init__.py").touch()
    with monkeypatch.context() as patch:
        patch.setattr(provenance, "_FOLDER", installed)
        assert provenance.revision() is None
    assert provenance.revision() is not None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.revision() is None


def test_a_machine_has_processor_cores_and_memory() -> None:
    assert [part.split()[-1] for part in provenance.machine().split(", ")[-2:]] == ["cores", "GB"]

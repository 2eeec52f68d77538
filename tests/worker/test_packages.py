"""Packages of a pipeline's options, as the driver installs them for the workers."""

import importlib
import logging
import sys
import zipfile
from pathlib import Path
from typing import Any

import apache_beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from package_files import source, wheel

from sparkbeam.errors import ConfigurationError
from sparkbeam.spark import requirements
from sparkbeam.wire.usercode import Sources
from sparkbeam.worker import modules


@pytest.fixture(autouse=True)
def without_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.chdir(tmp_path)


def installed(*flags: str, same_python: bool = True) -> Path | None:
    return requirements.installed(PipelineOptions([*flags]), same_python=same_python)


def files(folder: Path | None) -> set[str]:
    assert folder is not None
    return {str(path.relative_to(folder)) for path in folder.rglob("*.py")}


def test_nothing_is_installed_without_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subprocess.run", None)
    assert installed() is None


@pytest.mark.parametrize("same_python", [True, False])
def test_requirements_that_workers_have_are_not_installed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, same_python: bool
) -> None:
    monkeypatch.setattr("subprocess.run", None)
    lines = ["# frozen", "", f"apache-beam[gcp]=={apache_beam.__version__}", "numpy==0.1 \\"]
    lines += ["  --hash=sha256:00", "absent; python_version < '3'", "--no-index"]
    Path("names.txt").write_text("\n".join([*lines, *(["pytest", "ruff>0"] * same_python)]))
    with caplog.at_level(logging.WARNING):
        assert installed("--requirements_file=names.txt", same_python=same_python) is None
    assert "numpy==0.1 is left out" in caplog.text


def test_packages_of_all_kinds_are_installed_together(tmp_path: Path) -> None:
    first = wheel(tmp_path / "wheels", "prog_first", "ONE = 1\n")
    wheel(tmp_path / "wheels", "prog_second", "TWO = 2\n")
    third = wheel(tmp_path, "prog_third", "THREE = 3\n", requires="prog_absent>9")
    Path("deep").mkdir()
    Path("deep/more.txt").write_text(f"{third.as_uri()}\n")
    Path("deep/names.txt").write_text(
        "-f ../wheels\n-r more.txt\nprog_second==1  # by name\n-e ./local\napache-beam==2.0\n"
    )
    source(tmp_path / "local", "prog_local", "FOUR = 4\n")
    setup = source(tmp_path / "own", "prog_own", "FIVE = 5\n")
    flags = [
        "--requirements_file=deep/names.txt",
        f"--extra_package={first}",
        f"--setup_file={setup.relative_to(tmp_path)}",
    ]
    folder = installed(*flags)
    assert files(folder) == {
        "prog_first.py",
        "prog_second.py",
        "prog_third.py",
        "prog_local/__init__.py",
        "prog_own/__init__.py",
    }
    assert Path.cwd() == tmp_path
    assert not (tmp_path / "local" / "build").exists()


def kept(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "prog_kept.py").write_text(text)
    found = requirements._move_to_served(folder)
    assert found is not None
    return found


def test_the_same_packages_have_the_same_place_and_the_same_archive(tmp_path: Path) -> None:
    one, again, other = (
        kept(tmp_path / name, text) for name, text in (("a", "A"), ("b", "A"), ("c", "C"))
    )
    assert one == again != other
    archive = requirements.archive(one)
    content = archive.read_bytes()
    archive.unlink()
    assert requirements.archive(one).read_bytes() == content
    with zipfile.ZipFile(archive) as found:
        assert found.namelist() == ["prog_kept.py"]


def test_an_error_has_no_secret_of_an_index(tmp_path: Path) -> None:
    lines = ["--index-url https://me:hunter22@localhost:1/simple?token=abcdef123", "prog_absent"]
    Path("names.txt").write_text("\n".join(lines))
    with pytest.raises(ConfigurationError) as caught:
        installed("--requirements_file=names.txt")
    assert "prog_absent" in str(caught.value)
    assert "hunter22" not in str(caught.value)
    assert "abcdef123" not in str(caught.value)


def test_a_package_that_cannot_be_built_is_an_error(tmp_path: Path) -> None:
    setup = source(tmp_path / "own", "prog_bad", "")
    setup.write_text("raise RuntimeError('no compiler')")
    with pytest.raises(ConfigurationError, match=r"cannot be staged: .*setup\.py.*exit status 1"):
        installed(f"--setup_file={setup}")


def test_a_worker_elsewhere_unpacks_the_archive_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = kept(tmp_path / "packages", "FAR = 1")
    served = tmp_path / "served"
    served.mkdir()
    archive = requirements.archive(folder)
    (served / archive.name).write_bytes(archive.read_bytes())
    finder: Any = modules.Modules()
    monkeypatch.setattr("pyspark.SparkFiles.get", lambda name: str(served / name))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    for _ in range(2):
        modules._unpacked.cache_clear()
        finder.follow("run", Sources(packages=archive.name))
    found: Any = importlib.import_module("prog_kept")
    assert Path(found.__file__).parent == served / folder.name
    assert {path.name for path in served.iterdir()} == {archive.name, folder.name}

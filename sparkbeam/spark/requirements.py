"""Packages that a pipeline's options name, installed by the driver for the workers.

Beam's other runners install them in workers that they start. Here pip installs them into a folder
of the driver. Workers that share its files import from it; the others get it as an archive. So they
need neither pip nor a network.
"""

import hashlib
import importlib.metadata
import importlib.util
import logging
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import uuid
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from apache_beam.options.pipeline_options import PipelineOptions, SetupOptions
from apache_beam.runners.portability import stager
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from sparkbeam.common.arguments import shown
from sparkbeam.common.display_text import shortened
from sparkbeam.common.entry_points import distributions
from sparkbeam.common.temporary_folders import served_folder
from sparkbeam.errors import ConfigurationError
from sparkbeam.plan.redaction import Redaction

_logger = logging.getLogger(__name__)

_ROOTS = ("sparkbeam", "apache-beam", "pyspark", "pyspark-client")
_SETUP = "setup.py"
_MOST = 400
_DIGITS = 12
_DATE = (1980, 1, 1, 0, 0, 0)
_UNSHIPPED = ("direct_url.json", "RECORD", "INSTALLER", "REQUESTED")
_OTHER_FILE = re.compile(r"\s*(-r|--requirement|-c|--constraint|-f|--find-links)(?:\s+|=)(\S+)\s*$")
_PACKAGE = re.compile(r"\s*(?:-r|--requirement|[^\s#-])")
_EDITABLE = re.compile(r"^\s*(?:-e|--editable)(?:\s+|=)")
_TELLING = re.compile(r"^(?:ERROR|error): *(.*)", re.MULTILINE)
_URL = re.compile(r"\S*://\S+")


def installed(options: PipelineOptions, *, same_python: bool) -> Path | None:
    """Install the packages that options name; None if there are none.

    The folder lives as long as the process, and has the same name for the same content.

    Args:
        same_python: workers run the driver's Python, and have what is installed there.

    Raises:
        ConfigurationError: pip cannot install them.
    """
    named = options.view_as(SetupOptions)
    requirements, setup = (
        Path(given).absolute() if given else None
        for given in (named.requirements_file, named.setup_file)
    )
    if not (requirements or setup or named.extra_packages):
        return None
    with tempfile.TemporaryDirectory(prefix="sparkbeam-pip-") as folder:
        work = Path(folder)
        target = work / "packages"
        target.mkdir()
        lines = _requirements(requirements, same_python=same_python)
        hide = Redaction([("url", url) for line in lines for url in _URL.findall(line)])
        pip = _Pip(target, hide)
        archives, source = _staged(named, setup, work, hide)
        sources = [] if source is None else [source]
        for line in [*lines]:
            folder_of_package = _folder(line)
            if folder_of_package is not None and _is_built_by_setup():
                lines.remove(line)
                copy = work / f"source-{len(sources)}"
                shutil.copytree(folder_of_package, copy, ignore=shutil.ignore_patterns(".*"))
                sources.append(copy / _SETUP)
        for source in sources:
            lines += pip.build(source)
        file = work / "requirements.txt"
        file.write_text("\n".join(lines))
        if archives or any(map(_PACKAGE.match, lines)):
            pip.install([*archives, "-r", str(file)])
        _prune(target)
        return _move_to_served(target)


def archive(folder: Path) -> Path:
    """Return an archive with the content of a folder of packages, for workers elsewhere."""
    path = folder.with_suffix(".zip")
    if not path.exists():
        unfinished = path.with_name(uuid.uuid4().hex)
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as content:
            for file in _files(folder):
                content.writestr(
                    zipfile.ZipInfo(file.relative_to(folder).as_posix(), _DATE), file.read_bytes()
                )
        unfinished.replace(path)
    return path


class _Pip:
    """Installations into one folder.

    Args:
        hide: removes the secrets of index URLs from a text.
    """

    def __init__(self, target: Path, hide: Redaction) -> None:
        self._target = target
        self._hide = hide

    def install(self, what: Sequence[str]) -> None:
        """Install packages with what they depend on, or without where that cannot be had.

        Raises:
            ConfigurationError: pip fails.
        """
        if not _has("pip"):
            raise ConfigurationError(
                "The Python of this program has no pip, which installs the packages of the "
                "pipeline: run 'python -m ensurepip', or install them on the workers: see "
                "docs/cluster.md."
            )
        problems: list[str] = []
        for attempt in ((), ("--no-build-isolation",), ("--no-build-isolation", "--no-deps")):
            problem = self._run(
                "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input",
                "--no-compile", "--retries=1", f"--target={self._target}", "--upgrade", *attempt,
                *what,
            )  # fmt: skip
            if problem is None:
                if "--no-deps" in attempt:
                    _logger.warning(
                        "The dependencies of the packages cannot be installed: %s The workers' "
                        "Python must have them.",
                        problems[0],
                    )
                return
            problems.append(problem)
        raise ConfigurationError(
            f"pip cannot install the packages of the pipeline: {problems[0]} "
            "Correct the options --requirements_file, --extra_package and --setup_file, or "
            "install the packages on the workers: see docs/cluster.md."
        )

    def build(self, source: Path) -> list[str]:
        """Install a package from its ``setup.py``, which needs no network.

        Returns:
            The requirements of the package.
        """
        work = source.parent
        problem = self._run(
            _SETUP, "--quiet", "install_lib", "--no-compile", f"--install-dir={self._target}",
            "install_egg_info", f"--install-dir={self._target}", work=work,
        )  # fmt: skip
        if problem is not None:
            raise ConfigurationError(
                f"--setup_file: the package cannot be built: {problem} Correct its setup.py."
            )
        lines = []
        for file in self._target.glob("*.egg-info/requires.txt"):
            lines += file.read_text().partition("[")[0].split("\n")
        return lines

    def _run(self, *arguments: str, work: Path | None = None) -> str | None:
        """Run Python; return the problem, or None."""
        done = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            check=False,
            cwd=work,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode == 0:
            return None
        text = done.stderr.decode(errors="replace")
        found = _TELLING.findall(text) or [text.strip().rpartition("\n")[2]]
        return shortened(" ".join(found[:2]), _MOST, self._hide).rstrip(".") + "."


def _staged(
    named: SetupOptions, setup: Path | None, work: Path, hide: Redaction
) -> tuple[list[str], Path | None]:
    """Return archives to install, and the ``setup.py`` of a source to build, by Beam's stager.

    Args:
        setup: the absolute path of ``setup.py`` or ``pyproject.toml``, or None.
    """
    given = {
        "extra_packages": [*(named.extra_packages or ())] or None,
        "setup_file": str(setup) if setup else None,
    }
    if setup is not None and setup.name == "pyproject.toml" and not _has("build"):
        given["setup_file"] = None
    own = PipelineOptions(
        [],
        requirements_cache=stager.SKIP_REQUIREMENTS_CACHE,
        pickle_library=named.pickle_library,
        **given,
    )
    try:
        found = stager.Stager.create_job_resources(
            own, str(work), log_submission_env_dependencies=False
        )
    except Exception as error:
        lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()]
        raise ConfigurationError(
            "The packages of the pipeline cannot be staged: "
            f"{shortened(' '.join(lines[-2:]), _MOST, hide)}"
        ) from None
    archives, source = [], None
    for path, name, _ in stager.Stager.extract_staging_tuple_iter(found):
        if name == stager.WORKFLOW_TARBALL_FILE:
            source = path
        elif name != stager.EXTRA_PACKAGES_FILE:
            archives.append(path)
    if setup is not None and given["setup_file"] is None:
        archives.append(str(setup.parent))
    if source is None or not _is_built_by_setup():
        return archives + [source] * (source is not None), None
    return archives, _unpacked(source, work / "source")


def _is_built_by_setup() -> bool:
    """Return whether pip would have to fetch what builds a package, and setup.py would not."""
    return _has("setuptools") and not _has("wheel")


@cache
def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _unpacked(source: str, folder: Path) -> Path:
    with tarfile.open(source) as content:
        content.extractall(folder, filter="data")
    (setup,) = folder.glob(f"*/{_SETUP}")
    return setup


def _folder(line: str) -> Path | None:
    """Return the folder with a ``setup.py`` that is the whole of a requirement, or None."""
    path = Path(line.strip().removeprefix("file://"))
    is_plain = bool(line.strip()) and (path / _SETUP).is_file()
    return path if is_plain and not (path / "pyproject.toml").exists() else None


def _requirements(path: Path | None, *, same_python: bool) -> list[str]:
    """Return the lines of a requirements file without packages that workers have anyway."""
    if path is None:
        return []
    try:
        text = path.read_text()
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(
            f"--requirements_file={shown(str(path))} cannot be read "
            f"({getattr(error, 'strerror', None) or 'it is not a text file'}). Correct the path."
        ) from None
    kept = []
    for line in re.sub(r"\\\n", " ", text).splitlines():
        other = _OTHER_FILE.match(line)
        if other is not None and (path.parent / other[2]).exists():
            # Pip looks beside the file that it reads.
            kept.append(f"{other[1]} {path.parent / other[2]}")
        elif not _is_there(line, same_python=same_python):
            kept.append(_EDITABLE.sub("", line))
    return kept


def _is_there(line: str, *, same_python: bool) -> bool:
    """Return whether the workers have the package of a requirement."""
    try:
        requirement = Requirement(re.sub(r"(^|\s)#.*$|\s--hash=\S+", "", line).strip())
    except InvalidRequirement:
        return False
    if requirement.marker is not None and not requirement.marker.evaluate():
        return True
    name = canonicalize_name(requirement.name)
    there = _version(name)
    fits = there is not None and requirement.specifier.contains(there, prereleases=True)
    if name in _of_runner():
        if there is not None and not fits:
            _logger.warning(
                "--requirements_file: %s is left out because the workers have %s %s, the version "
                "of this program.",
                requirement,
                name,
                there,
            )
        return True
    return same_python and fits and requirement.url is None and not requirement.extras


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


@cache
def _of_runner() -> frozenset[str]:
    """Return the names of sparkbeam and of all that it needs, which workers have."""
    found: set[str] = set()
    pending = [*_ROOTS, *distributions()]
    while pending:
        name = canonicalize_name(pending.pop())
        if name in found:
            continue
        found.add(name)
        try:
            needed = importlib.metadata.requires(name) or ()
        except importlib.metadata.PackageNotFoundError:
            continue
        pending += [
            requirement.name
            for requirement in map(Requirement, needed)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        ]
    return frozenset(found)


def _prune(target: Path) -> None:
    """Remove packages that would hide those of the workers, and notes of pip."""
    for package in importlib.metadata.distributions(path=[str(target)]):
        if canonicalize_name(package.metadata["Name"]) in _of_runner():
            for name in package.files or ():
                Path(str(package.locate_file(name))).unlink(missing_ok=True)
    for file in [*target.rglob("*")]:
        if file.name in _UNSHIPPED and ".dist-info" in file.parent.name:
            file.unlink()
    shutil.rmtree(target / "bin", ignore_errors=True)


def _move_to_served(target: Path) -> Path | None:
    """Move a folder to where it stays as long as the process."""
    files = _files(target)
    if not files:
        return None
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(target)}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    kept = Path(served_folder().name) / f"packages-{digest.hexdigest()[:_DIGITS]}"
    if not kept.exists():
        unfinished = kept.with_name(uuid.uuid4().hex)
        shutil.move(target, unfinished)
        try:
            unfinished.rename(kept)
        except OSError:  # Another thread has the same packages.
            shutil.rmtree(unfinished)
    return kept


def _files(folder: Path) -> list[Path]:
    return sorted(
        path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )

"""Python packages that a pipeline of Beam YAML names, which are used as installed."""

import importlib.metadata
from collections.abc import Iterable
from pathlib import PurePosixPath

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)

from sparkbeam.errors import ConfigurationError


def check_installed(kind: str, packages: Iterable[str]) -> None:
    """Check that packages are installed; a pipeline installs none.

    Args:
        kind: the type of the transform that needs them.
        packages: requirements, or paths and URLs of archives.

    Raises:
        ConfigurationError: some are not installed here, in the version that is named.
    """
    missing = sorted(package for package in packages if not _is_installed(package))
    if missing:
        names = ", ".join(map(repr, missing))
        raise ConfigurationError(
            f"{kind} needs packages that are not installed here: {names}. Install them on the "
            "driver and the workers, for example with pip. A pipeline does not install packages."
        )


def _is_installed(package: str) -> bool:
    wanted = _requirement(package)
    if wanted is None:
        return False
    try:
        found = importlib.metadata.version(wanted.name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return wanted.specifier.contains(found, prereleases=True)


def _requirement(package: str) -> Requirement | None:
    """Return the requirement that a package, or the name of an archive, stands for."""
    name = PurePosixPath(package).name
    try:
        if name.endswith(".whl"):
            return Requirement("{}=={}".format(*parse_wheel_filename(name)))
        if name.endswith((".tar.gz", ".zip")):
            return Requirement("{}=={}".format(*parse_sdist_filename(name)))
        return Requirement(package)
    except (InvalidRequirement, InvalidSdistFilename, InvalidWheelFilename):
        return None

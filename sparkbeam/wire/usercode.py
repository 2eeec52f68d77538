"""Which modules are a part of the user's program, and not of a library."""

import os
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass

_LIBRARIES = ("apache_beam", "py4j", "pyspark", "sparkbeam")
_MAIN = ("__main__", "__mp_main__")
_INSTALLED = (f"{os.sep}site-packages", f"{os.sep}dist-packages")
_PYTHONS_OWN = tuple(
    folder
    for name in ("stdlib", "platstdlib")
    for path in [sysconfig.get_path(name)]
    for folder in {path, os.path.realpath(path)}
)


@dataclass(frozen=True)
class Sources:
    """Where the driver of a run finds modules.

    Attributes:
        folders: those on its path that are not of libraries, in its order; none where the workers
            do not share its files.
        libraries: the others, likewise.
        archives: the names of the files with modules that it has shipped.
    """

    folders: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()


def entries(path: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The entries of a path of modules: those of the user, and those of libraries."""
    there = [os.path.abspath(entry) for entry in path]
    of_user = [entry for entry in there if not _is_in_library(entry)]
    return tuple(of_user), tuple(entry for entry in there if entry not in of_user)


def is_of_user(name: str, file: object) -> bool:
    """Whether a module of this name and file may be a part of the user's program."""
    if not isinstance(file, str) or name in _MAIN:
        return False
    return name.partition(".")[0] not in _LIBRARIES and not _is_in_library(file)


def _is_in_library(path: str) -> bool:
    # The archive of Python's own modules is beside their folder.
    is_installed = any(part in path for part in _INSTALLED)
    return is_installed or path.startswith((*_PYTHONS_OWN, _ARCHIVE))


_ARCHIVE = os.path.join(
    sys.base_prefix, "lib", f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
)

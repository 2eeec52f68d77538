"""Which modules are a part of the user's program, and not of a library."""

import os
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType

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


def unfindable() -> list[ModuleType]:
    """The loaded modules of the user that no import finds, such as a file that Airflow loads."""
    loaded = list(sys.modules.items())
    return [
        module
        for name, module in loaded
        if is_of_user(name, getattr(module, "__file__", None)) and not _is_found(name, module)
    ]


def _is_found(name: str, module: ModuleType) -> bool:
    """Whether an import in another process would find a module."""
    if module.__name__ != name:  # Who has it under another name sees to it.
        return True
    parent, _, _ = name.rpartition(".")
    path = getattr(sys.modules.get(parent), "__path__", None) if parent else None
    if parent and path is None:
        return False
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, path)
        except Exception:  # Whatever somebody's finder does.
            continue
        if spec is not None:
            return spec.origin is None or _is_same(spec.origin, module.__file__)
    return False


def _is_same(one: str, other: str | None) -> bool:
    return other is not None and os.path.realpath(one) == os.path.realpath(other)


def _is_in_library(path: str) -> bool:
    # The archive of Python's own modules is beside their folder.
    is_installed = any(part in path for part in _INSTALLED)
    return is_installed or path.startswith((*_PYTHONS_OWN, _ARCHIVE))


_ARCHIVE = os.path.join(
    sys.base_prefix, "lib", f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
)

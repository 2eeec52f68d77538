"""Distinction between modules of the user's program and of libraries."""

import functools
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from sparkbeam.common.entry_points import packages

_LIBRARIES = ("apache_beam", "py4j", "pyspark")
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
    """Module search path of a run's driver.

    Attributes:
        folders: entries outside of libraries, in order; empty if the workers do not share its
            files.
        packages: the folder of the pipeline's packages if the workers share its files, else the
            name of a shipped archive of it; None for none.
    """

    folders: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    packages: str | None = None


def entries(path: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split a module search path into the user's entries and those of libraries."""
    there = [os.path.abspath(entry) for entry in path]
    of_user = [entry for entry in there if not _is_in_library(entry)]
    return tuple(of_user), tuple(entry for entry in there if entry not in of_user)


def is_of_user(name: str, file: object) -> bool:
    """Return whether a module may belong to the user's program, by its name and file."""
    return isinstance(file, str) and _is_of_user(name, file)


@functools.cache
def _is_of_user(name: str, file: str) -> bool:
    if name in _MAIN:
        return False
    root = name.partition(".")[0]
    return root not in (*_LIBRARIES, *packages()) and not _is_in_library(file)


_found: WeakKeyDictionary[ModuleType, tuple[Any, bool]] = WeakKeyDictionary()
"""Results for modules, with their names and the state of the folders.

To look for hundreds of modules anew takes longer than a small pipeline.
"""


def unfindable() -> list[ModuleType]:
    """Return the user's loaded modules that cannot be imported, such as one loaded by Airflow."""
    loaded = list(sys.modules.items())
    state_of = functools.cache(_state)
    return [
        module
        for name, module in loaded
        if is_of_user(name, getattr(module, "__file__", None))
        and not _is_found(name, module, state_of)
    ]


def _state(path: tuple[str, ...]) -> tuple[Any, ...]:
    """Return what changes when modules come to a search path, or leave it."""
    return (*map(id, sys.meta_path), *((folder, _changed(folder)) for folder in path))


def _changed(folder: str) -> int:
    try:
        return os.stat(folder or os.curdir).st_mtime_ns
    except (OSError, TypeError, ValueError):  # An entry may be anything; imports pass over it.
        return 0


def _is_found(
    name: str, module: ModuleType, state_of: Callable[[tuple[str, ...]], tuple[Any, ...]]
) -> bool:
    """Return whether another process could import a module."""
    if module.__name__ != name:  # Aliases are the user's responsibility.
        return True
    parent, _, _ = name.rpartition(".")
    path = getattr(sys.modules.get(parent), "__path__", None) if parent else None
    if parent and path is None:
        return False
    try:
        state = name, state_of(tuple(sys.path if path is None else path))
        known = _found.get(module)
    except Exception:  # What programs put in the place of a module, or of a path, may lack a hash.
        return _is_importable(name, module, path)
    if known is None or known[0] != state:
        known = _found[module] = state, _is_importable(name, module, path)
    return known[1]


def _is_importable(name: str, module: ModuleType, path: Any) -> bool:
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, path)
        except Exception:  # A third-party finder may fail in any way.
            continue
        if spec is not None:
            one, other = spec.origin, module.__file__
            return one is None or (
                other is not None and os.path.realpath(one) == os.path.realpath(other)
            )
    return False


def _is_in_library(path: str) -> bool:
    # The archive of Python's standard library is next to its folder.
    is_installed = any(part in path for part in _INSTALLED)
    return is_installed or path.startswith((*_PYTHONS_OWN, _ARCHIVE))


_ARCHIVE = os.path.join(
    sys.base_prefix, "lib", f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
)

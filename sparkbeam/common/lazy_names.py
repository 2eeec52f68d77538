"""Public names of a package that are loaded on first use."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def loader(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package.

    Args:
        homes: the names of the modules by the public names in them.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute {name!r}")
        try:
            return getattr(import_module(homes[name]), name)
        except ModuleNotFoundError as error:
            if error.name != "pyspark":
                raise
        return import_module("sparkbeam.common.pyspark_needed")  # Raises the error with the remedy.

    return load

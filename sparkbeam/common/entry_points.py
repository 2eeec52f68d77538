"""Functions of packages beside the core, which name them as entry points of their distribution."""

import functools
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from sparkbeam.errors import ConfigurationError

REPLACEMENTS = "sparkbeam.replacements"
"""Functions that make the transform to apply instead, by the class of the user's transform."""

MANAGED_READS, MANAGED_WRITES = "sparkbeam.managed_reads", "sparkbeam.managed_writes"
"""Functions that make the transform of a configuration, by the system of a managed transform."""

_WRITES = "apache_beam.io.iobase.WriteImpl"
"""A transform that is always replaced."""

SOURCES = "sparkbeam.sources"
"""Functions that make the hooks of a read from its options, by the data source in small letters."""

UPSERTS = "sparkbeam.upserts"
"""Instances of ``sparkbeam.hooks.Upserts``, by the data source in small letters."""

PREPARATIONS = "sparkbeam.preparations"
"""Functions without arguments that are called before the first pipeline is made."""

COMMANDS = "sparkbeam.commands"
"""Subcommands of ``sparkbeam``, which are commands of click, by their names."""

YAML_TYPES = "sparkbeam.yaml_types"
"""Functions that make the transform of a type of Beam YAML from the arguments of its config."""

PACKAGES = "sparkbeam.packages"
"""Import names of packages of the runner, whose modules are none of the user's program."""

scanned = functools.cache(entry_points)
"""The entry points of all installed packages, read once in a process."""


@functools.cache
def registered(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by their names.

    Raises:
        ConfigurationError: two distributions have the same name in the group.
    """
    found: dict[str, EntryPoint] = {}
    for point in scanned().select(group=group):
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            raise ConfigurationError(
                f"{_owner(other)} and {_owner(point)} both have {point.name!r} in {group}: "
                "uninstall one of them."
            )
    return found


def function(group: str, name: str) -> Any:
    """Return a function of a group; None if there is none of the name.

    Raises:
        ConfigurationError: it cannot be imported, or two distributions have it.
    """
    point = registered(group).get(name)
    if point is None:
        return None
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"{_owner(point)} registers {point.value!r} for {name!r} in {group}, which cannot be "
            f"imported: {error}. Reinstall that package."
        ) from error


@functools.cache
def prepare() -> None:
    """Call the functions that prepare pipelines, once in a process.

    Raises:
        ConfigurationError: sparkbeam is not installed, and its own replacements are unknown.
    """
    if _WRITES not in registered(REPLACEMENTS):
        raise ConfigurationError(
            "sparkbeam's package metadata, which names the transforms it replaces, is missing: "
            "install sparkbeam with pip, even from a copy of its sources ('pip install -e .')."
        )
    for name in registered(PREPARATIONS):
        function(PREPARATIONS, name)()


@functools.cache
def packages() -> frozenset[str]:
    """Return the import names of sparkbeam and of the packages of the runner beside it."""
    return frozenset({"sparkbeam", *(point.value for point in scanned().select(group=PACKAGES))})


def distributions() -> tuple[str, ...]:
    """Return the names of the installed distributions of the packages beside sparkbeam."""
    found = scanned().select(group=PACKAGES)
    return tuple(sorted({point.dist.name for point in found if point.dist is not None}))


def _owner(point: EntryPoint) -> str:
    return "a package" if point.dist is None else f"the package {point.dist.name}"

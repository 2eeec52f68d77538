"""Providers of transforms in Beam YAML, in place of those that run Java."""

import functools
from collections.abc import Callable
from typing import Any

from sparkbeam.common.entry_points import (
    MANAGED_READS,
    MANAGED_WRITES,
    YAML_TYPES,
    function,
    registered,
)
from sparkbeam.errors import ConfigurationError
from sparkbeam.hooks.managed import transform_for
from sparkbeam.hooks.managed_config import ManagedConfig
from sparkbeam.replaced.yaml.packages import check_installed
from sparkbeam.upstream.yaml_scopes import (
    in_this_process,
    is_beams_own_java,
    names_of,
    packages_of,
    runs_query_in_java,
    transforms_of_queries,
    without_positions,
)


def native(kind: str, provider: Any) -> Any:
    """Return the provider to use for a type of transform.

    Args:
        kind: the type, such as ``Join``.
        provider: the one that Beam or the pipeline has.

    Raises:
        ConfigurationError: it needs packages that are not installed.
    """
    packages = packages_of(provider)
    if packages is not None:
        check_installed(kind, packages)
        return in_this_process(kind, provider)
    make = function(YAML_TYPES, kind)
    if make is not None and (runs_query_in_java(provider) or is_beams_own_java(kind, provider)):
        return _inline(kind, make)
    system = system_of(kind)
    if system is not None and is_beams_own_java(kind, provider):
        return _renamed(kind, provider, *system)
    transforms, queries = transforms_of_queries(provider), function(YAML_TYPES, _SQL)
    return provider if not queries or transforms is None else _with_queries(queries, provider)


def system_of(kind: str) -> tuple[str, str] | None:
    """Return the managed system that a type reads or writes, and its group of entry points.

    The type ``ReadFromIcebergCDC`` is the read of ``iceberg_cdc``. None for another type.
    """
    for way, group in (("ReadFrom", MANAGED_READS), ("WriteTo", MANAGED_WRITES)):
        for system in registered(group) if kind.startswith(way) else ():
            if system.replace("_", "") == kind.removeprefix(way).lower():
                return system, group
    return None


_SQL = "Sql"


@functools.cache
def _renamed(kind: str, provider: Any, system: str, group: str) -> Any:
    """Return the provider of a type, whose arguments have the names of Beam's provider."""
    names = names_of(kind, provider)
    shown_as = {key: name for name, key in names.items()}

    def make(**config: Any) -> Any:
        given = without_positions(config)
        renamed = {names.get(name, name): value for name, value in given.items()}
        return transform_for(group, system, ManagedConfig(kind, renamed, shown_as))

    return _inline(kind, make)


@functools.cache
def _inline(kind: str, make: Callable[..., Any]) -> Any:
    """Return the provider of a type that a function makes."""
    from apache_beam.yaml import yaml_provider

    return yaml_provider.InlineProvider({kind: make})


@functools.cache
def _with_queries(make: Callable[..., Any], provider: Any) -> Any:
    """Return the provider with queries of a package's."""
    from apache_beam.yaml import yaml_provider

    transforms = transforms_of_queries(provider) or {}
    return yaml_provider.SqlBackedProvider(
        {kind: _without_error_handling(kind, transform) for kind, transform in transforms.items()},
        _inline(_SQL, make),
    )


def _without_error_handling(kind: str, make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes a transform of a query, which handles no errors."""

    @functools.wraps(make)
    def create(*args: Any, **config: Any) -> Any:
        if "error_handling" in config:
            raise ConfigurationError(
                f"{kind}: error_handling is not supported in SQL. Use language: python, or leave "
                "error_handling out."
            )
        return make(*args, **config)

    return create

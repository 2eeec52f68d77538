"""Providers of transforms in Beam YAML, in place of those that run Java."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from sparkbeam.common.entry_points import MANAGED_READS, MANAGED_WRITES, YAML_TYPES, function
from sparkbeam.cross_language.yaml.packages import check_installed
from sparkbeam.hooks.managed import transform_for
from sparkbeam.hooks.managed_config import ManagedConfig
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
    queries = function(YAML_TYPES, _SQL)
    if kind == _SQL:
        return _queries(queries) if queries and runs_query_in_java(provider) else provider
    if kind in _NATIVE:
        return _renamed(kind, provider) if is_beams_own_java(kind, provider) else provider
    transforms = transforms_of_queries(provider)
    return provider if not queries or transforms is None else _with_queries(queries, provider)


def system_of(kind: str) -> str | None:
    """Return the system that a type reads or writes in place of Java; None for another type."""
    return _NATIVE[kind][0] if kind in _NATIVE else None


_SQL = "Sql"
_DATABASES = {
    "Jdbc": "jdbc",
    "MySql": "mysql",
    "Oracle": "oracle",
    "Postgres": "postgres",
    "SqlServer": "sqlserver",
}
_NATIVE: Mapping[str, tuple[str, str]] = {
    "ReadFromKafka": ("kafka", MANAGED_READS),
    "ReadFromIcebergCDC": ("iceberg_cdc", MANAGED_READS),
    "WriteToKafka": ("kafka", MANAGED_WRITES),
    **{f"ReadFrom{name}": (system, MANAGED_READS) for name, system in _DATABASES.items()},
    **{f"WriteTo{name}": (system, MANAGED_WRITES) for name, system in _DATABASES.items()},
}
"""The system of each type, and the group of the functions that make its transform."""


@functools.cache
def _renamed(kind: str, provider: Any) -> Any:
    """Return the provider of a type, whose arguments have the names of Beam's provider."""
    from apache_beam.yaml import yaml_provider

    system, group = _NATIVE[kind]
    names = names_of(kind, provider)
    shown_as = {key: name for name, key in names.items()}

    def make(**config: Any) -> Any:
        given = without_positions(config)
        renamed = {names.get(name, name): value for name, value in given.items()}
        return transform_for(group, system, ManagedConfig(kind, renamed, shown_as))

    return yaml_provider.InlineProvider({kind: make})


@functools.cache
def _queries(make: Callable[..., Any]) -> Any:
    """Return the provider of ``Sql``."""
    from apache_beam.yaml import yaml_provider

    return yaml_provider.InlineProvider({_SQL: make})


@functools.cache
def _with_queries(make: Callable[..., Any], provider: Any) -> Any:
    """Return the provider with queries of a package's."""
    from apache_beam.yaml import yaml_provider

    return yaml_provider.SqlBackedProvider(transforms_of_queries(provider) or {}, _queries(make))

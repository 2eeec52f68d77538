"""``managed.Read`` and ``managed.Write`` over Spark's sources and sinks.

Systems that are not in the tables are left to Beam, whose expansion is refused.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import apache_beam as beam

from sparkbeam.connectors.databases import DRIVERS, Database
from sparkbeam.cross_language.managed_config import (
    SECRET_MANAGER,
    ManagedConfig,
    loaded,
    no_secret_manager,
    one_of,
)
from sparkbeam.cross_language.tables.jdbc import (
    JdbcRead,
    JdbcWrite,
    ReadFromDatabase,
    WriteToDatabase,
    jars_of,
    properties_of,
)
from sparkbeam.errors import ConfigurationError
from sparkbeam.upstream.external import managed_configuration

READS: Mapping[str, str] = {
    "postgres": "sparkbeam.cross_language.managed:read_database",
    "mysql": "sparkbeam.cross_language.managed:read_database",
    "sqlserver": "sparkbeam.cross_language.managed:read_database",
    "iceberg": "sparkbeam.cross_language.tables.iceberg:read",
    "iceberg_cdc": "sparkbeam.cross_language.tables.iceberg_changes:read",
    "kafka": "sparkbeam.cross_language.kafka.rows:read",
    "delta": "sparkbeam.cross_language.tables.delta:read",
    "delta_cdc": "sparkbeam.cross_language.tables.delta:read_changes",
}
"""Function from a configuration to the transform, as ``module:function``, by the system."""

WRITES: Mapping[str, str] = {
    "postgres": "sparkbeam.cross_language.managed:write_database",
    "mysql": "sparkbeam.cross_language.managed:write_database",
    "sqlserver": "sparkbeam.cross_language.managed:write_database",
    "iceberg": "sparkbeam.cross_language.tables.iceberg:write",
    "kafka": "sparkbeam.cross_language.kafka.rows:write",
}
"""The same for writes."""

_SCHEMES = {
    "mysql": ("mysql", "mariadb"),
    "oracle": ("oracle",),
    "postgres": ("postgresql",),
    "sqlserver": ("sqlserver",),
}


def read(transform: Any, pipeline: beam.Pipeline) -> "beam.PTransform[Any, Any] | None":
    """Return the replacement of a ``managed.Read``; None for a system without one."""
    return _made("Read", READS, transform)


def write(transform: Any, pipeline: beam.Pipeline) -> "beam.PTransform[Any, Any] | None":
    """Return the replacement of a ``managed.Write``; None for a system without one."""
    return _made("Write", WRITES, transform)


def _made(
    kind: str, systems: Mapping[str, str], transform: Any
) -> "beam.PTransform[Any, Any] | None":
    system, text, url = managed_configuration(transform)
    place = systems.get(system)
    if place is None:
        return None
    return made(place, system, loaded(f"managed.{kind}({system.upper()})", text, url))


def made(place: str, system: str, config: ManagedConfig) -> "beam.PTransform[Any, Any]":
    """Return the transform of a configuration.

    Args:
        place: the function that makes it, as ``module:function``.
        system: the system; ``jdbc`` for any database.
        config: the configuration.
    """
    module, _, function = place.partition(":")
    make: Callable[[str, ManagedConfig], beam.PTransform[Any, Any]] = getattr(
        importlib.import_module(module), function
    )
    return make(system, config)


def read_database(system: str, config: ManagedConfig) -> "beam.PTransform[Any, Any]":
    """Return a read of a table or a query of a database."""
    database = _database(system, config)
    table, query = config.text("location"), config.text("read_query")
    one_of(config, ("location", table), ("read_query", query))
    arguments = JdbcRead(
        database,
        table,
        query,
        config.number("fetch_size"),
        config.text("partition_column") or None,
        config.number("num_partitions"),
        config.flag("output_parallelization"),
    )
    config.ignore("disable_auto_commit")
    config.finish()
    return ReadFromDatabase(arguments)


def write_database(system: str, config: ManagedConfig) -> "beam.PTransform[Any, Any]":
    """Return a write into a table of a database, or with a statement."""
    database = _database(system, config)
    table, statement = config.text("location"), config.text("write_statement")
    one_of(config, ("location", table), ("write_statement", statement))
    arguments = JdbcWrite(database, table, statement, config.number("batch_size"))
    config.ignore("autosharding")
    config.finish()
    return WriteToDatabase(arguments)


def _database(system: str, config: ManagedConfig) -> Database:
    if config.text(SECRET_MANAGER):
        raise ConfigurationError(f"{config.name}: {no_secret_manager(SECRET_MANAGER, 'password')}")
    config.ignore("jdbc_type")
    found = Database(
        config.required("jdbc_url"),
        config.text("driver_class_name"),
        config.text("username"),
        config.text("password"),
        properties_of(config.text("connection_properties")),
        config.names("connection_init_sql"),
        tuple(jars_of(config.text("driver_jars"))),
    )
    schemes = _SCHEMES.get(system)
    if schemes is not None and found.scheme not in schemes:
        raise ConfigurationError(
            f"{config.name}: jdbc_url is the address of another database than "
            f"{' or '.join(f'jdbc:{name}:' for name in schemes)}."
        )
    driver = found.driver or DRIVERS.get(found.scheme)
    if not driver:
        raise ConfigurationError(
            f"{config.name}: give the class of the driver as driver_class_name; that of "
            f"jdbc:{found.scheme}: is not known."
        )
    return replace(found, driver=driver)

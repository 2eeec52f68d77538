"""Tables of databases in managed transforms and in Beam YAML."""

from dataclasses import replace
from typing import Any

import apache_beam as beam

from sparkbeam.connectors.jdbc_urls import DRIVERS
from sparkbeam.errors import ConfigurationError
from sparkbeam.hooks.managed_config import (
    SECRET_MANAGER,
    ManagedConfig,
    no_secret_manager,
    one_of,
)
from sparkbeam_tables.databases import Database
from sparkbeam_tables.jdbc import (
    JdbcRead,
    JdbcWrite,
    ReadFromDatabase,
    WriteToDatabase,
    jars_of,
    properties_of,
)

_SCHEMES = {
    "mysql": ("mysql", "mariadb"),
    "oracle": ("oracle",),
    "postgres": ("postgresql",),
    "sqlserver": ("sqlserver",),
}


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
            f"{config.name}: jdbc_url must begin with "
            f"{' or '.join(f'jdbc:{name}:' for name in schemes)}."
        )
    driver = found.driver or DRIVERS.get(found.scheme)
    if not driver:
        raise ConfigurationError(
            f"{config.name}: set driver_class_name to the class of the driver, because no "
            f"driver is known for 'jdbc:{found.scheme}:'."
        )
    return replace(found, driver=driver)

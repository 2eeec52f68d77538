"""Servers of the tests of this folder, and SQL over them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import database_servers as servers
import pytest
import table_programs
from database_servers import Sql

from sparkbeam.errors import ConfigurationError
from sparkbeam.upstream.spark import is_classic, jdbc_connection
from sparkbeam_tables.databases import Database


def _connected(spark: Any, server: servers.Server, jars: tuple[str, ...] = ()) -> Iterator[Sql]:
    database = Database(server.url, server.driver, server.user, server.password, jars=jars)
    if not is_classic(spark):
        pytest.skip("tells a server with a connection of Java's")
    try:
        database.prepare(spark)
    except ConfigurationError as error:
        pytest.skip(f"Spark cannot get the driver: {error}")
    with jdbc_connection(spark, database.options(dbtable="t")) as (connection, _):
        yield Sql(server, connection)


@pytest.fixture(scope="session")
def postgresql(spark: Any) -> Iterator[Sql]:
    """A PostgreSQL server; its driver is the one that sessions get by default."""
    with servers.postgresql() as server:
        yield from _connected(spark, server)


@pytest.fixture(scope="session")
def mariadb(spark: Any) -> Iterator[Sql]:
    """A MariaDB server."""
    with servers.mariadb() as server:
        yield from _connected(spark, server, ("org.mariadb.jdbc:mariadb-java-client:3.5.3",))


@pytest.fixture(scope="session")
def managed_tables(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Findings about the tables of each system; its tests are of the group of that name."""
    folder = tmp_path_factory.mktemp("tables")
    program = Path(__file__).with_name("managed_tables_program.py")
    return table_programs.findings(["delta", "iceberg"], str(program), folder)


@pytest.fixture
def derby(spark: Any, tmp_path: Path) -> dict[str, Any]:
    """The arguments for a database with the table ``pairs``."""
    url = f"jdbc:derby:memory:{tmp_path.name};create=true"
    with jdbc_connection(spark, {"url": url, "dbtable": "t"}) as (connection, _):
        for statement in (
            "CREATE TABLE pairs (id INT, name VARCHAR(9), more INT DEFAULT 7)",
            "INSERT INTO pairs (id, name) VALUES (1, 'a'), (2, NULL)",
        ):
            connection.createStatement().executeUpdate(statement)
    return {
        "table_name": "pairs",
        "driver_class_name": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
        "jdbc_url": url,
        "username": "",
        "password": "hunter2-of-nobody",
    }

"""Databases of managed transforms, which Spark reaches over JDBC."""

import re
from dataclasses import dataclass, field
from typing import Any

from sparkbeam.common.arguments import shown
from sparkbeam.common.database_errors import without_values
from sparkbeam.common.maven_packages import DRIVERS as PACKAGES
from sparkbeam.connectors.jdbc_urls import DRIVERS, JDBC, account_problem, known_url
from sparkbeam.errors import ConfigurationError
from sparkbeam.plan.spark_io import Options
from sparkbeam.spark.capabilities import is_remote
from sparkbeam.spark.jars import add_jars
from sparkbeam.upstream.spark import has_class, is_classic, jdbc_connection

_DEFAULT_JARS = {
    DRIVERS[scheme]: PACKAGES[scheme] for scheme in ("postgresql", "mysql", "mariadb", "sqlserver")
}
"""Archives of drivers that sessions get by themselves, as Beam has them in its own archive."""

_SEVERAL_STATEMENTS = frozenset(["postgresql", "sqlserver", "mysql", "mariadb"])
_OF_SPARK = frozenset(
    """
    url dbtable query driver partitioncolumn lowerbound upperbound numpartitions querytimeout
    fetchsize batchsize isolationlevel sessioninitstatement truncate cascadetruncate
    createtableoptions createtablecolumntypes customschema pushdownpredicate pushdownaggregate
    pushdownlimit pushdownoffset pushdowntablesample keytab principal refreshkrb5config
    connectionprovider preparequery prefertimestampntz hint tablecomment
    """.split()
)


@dataclass(frozen=True)
class Database:
    """A database and how to connect to it.

    Attributes:
        user: empty for none.
        password: empty for none.
        init_sqls: statements for each new connection.
        jars: archives of the driver, as in :func:`.jars.add_jars`.
        max_connections: the maximum number of connections; None for no limit.
    """

    url: str = field(repr=False)
    driver: str = ""
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    properties: Options = field(default=(), repr=False)
    init_sqls: tuple[str, ...] = field(default=(), repr=False)
    jars: tuple[str, ...] = ()
    max_connections: int | None = None

    def __post_init__(self) -> None:
        """Check the properties.

        Raises:
            ConfigurationError: the URL is none of JDBC, or has an account that the driver does not
                understand; a property is an option of Spark's.
        """
        if not self.scheme:
            raise ConfigurationError(
                "jdbc_url is not the URL of a database: it must begin with jdbc:, such as "
                "jdbc:postgresql://host:5432/database."
            )
        problem = account_problem("jdbc_url", self.url, self.driver)
        if problem is not None:
            raise ConfigurationError(f"{problem}: give username and password instead.")
        for name, _ in self.properties:
            if name.lower() in _OF_SPARK:
                raise ConfigurationError(
                    f"connection_properties: {shown(name)} is an option of Spark's JDBC source. "
                    "Set a driver property with this name in jdbc_url."
                )

    @property
    def scheme(self) -> str:
        """The name of the database system in the URL, such as ``postgresql``; empty for none."""
        found = re.match(r"jdbc:(\w+):", self.url)
        return found.group(1).lower() if found else ""

    def options(self, **more: object) -> dict[str, str]:
        """Return the options of Spark's JDBC source and sink.

        Args:
            more: further ones; None for none.
        """
        given = {"url": self.url, "driver": self.driver, "user": self.user}
        known = {**given, "password": self.password, **dict(self.properties)}
        known |= {name: str(value) for name, value in more.items() if value is not None}
        return known_url(JDBC, {name: value for name, value in known.items() if value != ""})

    def initialization(self) -> dict[str, str]:
        """Return the options that have Spark run the first statements of a connection for reading.

        Raises:
            ConfigurationError: the driver takes a single statement, and there are several.
        """
        statements = [text.strip().rstrip(";") for text in self.init_sqls if text.strip()]
        if len(statements) > 1 and self.scheme not in _SEVERAL_STATEMENTS:
            raise ConfigurationError(
                f"connection_init_sqls has {len(statements)} statements, but a connection to "
                f"'{self.scheme}' accepts only one: combine them, e.g. in a block or a procedure."
            )
        if not statements:
            return {}
        found = {"sessionInitStatement": "; ".join(statements)}
        if len(statements) > 1 and self.scheme in ("mysql", "mariadb"):
            found["allowMultiQueries"] = "true"
        return found

    def prepare(self, session: Any) -> None:
        """Make the driver known to a session.

        Raises:
            ConfigurationError: an archive does not exist, or the session refuses it.
        """
        if is_classic(session) and self.driver and has_class(session, self.driver):
            return
        default = _DEFAULT_JARS.get(self.driver)
        if self.jars:
            add_jars(session, self.jars, "classpath or driver_jars")
        elif default is not None and not is_remote(session):
            add_jars(session, [default], "classpath")


def check_statements(session: Any, database: Database) -> None:
    """Run the first statements of a connection, whose errors Spark would tell with their texts.

    Args:
        session: of the pipeline; only a classic one can run them.

    Raises:
        ConfigurationError: the database refuses one, or takes a single one and there are several.
    """
    if not database.initialization() or not is_classic(session):
        return
    statements = [text for text in database.init_sqls if text.strip()]
    with jdbc_connection(session, database.options(dbtable="t")) as (connection, _):
        for number, text in enumerate(statements, 1):
            try:
                connection.createStatement().execute(text)
            except Exception as error:
                told = getattr(error, "java_exception", None)
                text = str(error if told is None else told.getMessage())
                state = "" if told is None else f" (SQLSTATE {told.getSQLState()})"
                raise ConfigurationError(
                    f"connection_init_sqls: statement {number} of {len(statements)} is "
                    f"refused{state}: {without_values(text)}"
                ) from None

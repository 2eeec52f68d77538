"""SQL statements with parameters, run by a database's Python client in the tasks."""

import importlib.util
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from sparkbeam.common.arguments import listed, shown
from sparkbeam.common.database_errors import without_values
from sparkbeam.errors import ConfigurationError
from sparkbeam_tables.database_values import as_parameter, field_of, unstorable

_BATCH = 1000

_CLIENTS: Mapping[str, tuple[str, str]] = {
    "postgresql": ("psycopg", "sparkbeam[postgresql]"),
    "mysql": ("pymysql", "sparkbeam[mysql]"),
    "mariadb": ("pymysql", "sparkbeam[mysql]"),
    "sqlite": ("sqlite3", "sqlite3"),
}
"""Module and package of the client, by the scheme of the URL."""

_POSTGRESQL = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslpassword": "sslpassword",
    "applicationname": "application_name",
    "connecttimeout": "connect_timeout",
    "logintimeout": "connect_timeout",
    "user": "user",
    "password": "password",
}
_IGNORED = frozenset(
    """
    stringtype rewritebatchedinserts preparethreshold defaultrowfetchsize sockettimeout
    tcpkeepalive binarytransfer autosave loglevel loggerlevel rewritebatchedstatements
    servertimezone connectiontimezone forceconnectiontimezonetosession preserveinstants
    useunicode characterencoding zerodatetimebehavior autoreconnect cacheprepstmts
    usecursorfetch useserverprepstmts uselegacydatetimecode tinyint1isbit
    allowpublickeyretrieval allowmultiqueries usebulkstmts
    """.split()
)
"""Parameters of Java's drivers that are about their own work, in lower case."""

_SECURE = {"required", "verify_ca", "verify_identity", "trust", "verify-ca", "verify-full"}


class StatementRefused(Exception):
    """A database has refused a statement."""


@dataclass
class StatementWriter:
    """Writer for :class:`.Foreach` that runs a statement for each row, in batches.

    A batch is a transaction. Errors of the database have no values of rows and no parts of
    statements.

    Attributes:
        account: user and password.
        init_sqls: statements for each new connection.
        statement: the statement, with a ``?`` for each field of a row.
        fields: names of the fields, in the order of the parameters.
        batch_size: the maximum number of rows of a batch.
    """

    url: str = field(repr=False)
    account: tuple[str, str] = field(repr=False)
    properties: tuple[tuple[str, str], ...] = field(repr=False)
    init_sqls: tuple[str, ...] = field(repr=False)
    statement: str = field(repr=False)
    fields: tuple[str, ...]
    batch_size: int = _BATCH

    def check(self) -> None:
        """Check what can be checked without a connection.

        Raises:
            ConfigurationError: there is no client for the database, or it is not installed; the
                URL has an unknown parameter; the statement has another number of parameters.
        """
        scheme = _scheme(self.url)
        if scheme not in _CLIENTS:
            raise ConfigurationError(
                "statement and connection_init_sqls of a write need a Python client, which exists "
                f"for {listed(_CLIENTS)}, but not for '{scheme}': leave them out, so that Spark "
                "writes the rows, or write with sparkbeam.io.Foreach and your own client."
            )
        module, package = _CLIENTS[scheme]
        if importlib.util.find_spec(module) is None:
            raise ConfigurationError(
                f"statement and connection_init_sqls of a write need {module}, which is not "
                f"installed: pip install '{package}', here and on the workers."
            )
        _arguments(self.url, self.account, self.properties)
        marks = translated(self.statement, scheme)[1]
        if marks != len(self.fields):
            raise ConfigurationError(
                f"statement has {marks} parameters (?), but the rows have {len(self.fields)} "
                f"fields ({listed(self.fields)}): use one parameter per field, in field order. "
                "Write a ? in an operator as ??, such as ??|."
            )

    def open(self, partition_id: int, epoch_id: int) -> bool:
        """Connect.

        Raises:
            StatementRefused: the database refuses one of the first statements.
        """
        self._rows: list[tuple[Any, ...]] = []
        self._scheme = _scheme(self.url)
        self._translated = translated(self.statement, self._scheme)[0]
        self._connection = connect(self.url, self.account, self.properties)
        cursor = self._connection.cursor()
        statements = [*filter(str.strip, self.init_sqls)]
        for number, text in enumerate(statements, 1):
            with _refused(f"connection_init_sqls: statement {number} of {len(statements)}"):
                cursor.execute(text)
        self._connection.commit()
        return True

    def process(self, row: Any) -> None:
        """Keep a row, and write a batch once there are enough.

        Raises:
            ValueError: the database has no such value.
            StatementRefused: it refuses a row of the batch.
        """
        values = {name: as_parameter(field_of(row, name)) for name in self.fields}
        for name, value in values.items():
            problem = unstorable(value, self._scheme)
            if problem is not None:
                raise ValueError(f"the field {shown(name)} {problem}")
        self._rows.append(tuple(values.values()))
        if len(self._rows) >= self.batch_size:
            self._flush()

    def close(self, error: Exception | None) -> None:
        """Write the rest, unless a row has failed."""
        try:
            if error is None:
                self._flush()
        finally:
            self._connection.close()

    def _flush(self) -> None:
        rows, self._rows = self._rows, []
        if not rows:
            return
        if self._scheme == "sqlite":
            rows = [tuple(map(_for_sqlite, row)) for row in rows]
        with _refused(f"the statement for rows of {listed(self.fields)}"):
            self._connection.cursor().executemany(self._translated, rows)
            self._connection.commit()


@contextmanager
def _refused(what: str) -> Iterator[None]:
    """Convert an error of a client to one without values.

    Raises:
        StatementRefused: there was one.
    """
    try:
        yield
    except Exception as error:
        raise StatementRefused(f"{what} failed with {_described(error)}") from None


def _described(error: Exception) -> str:
    """Return the class, the code and the message of a client's error."""
    codes = [
        getattr(error, "sqlstate", None),
        getattr(error, "sqlite_errorname", None),
        error.args[0] if error.args and isinstance(error.args[0], int) else None,
    ]
    code = next((f" ({code})" for code in codes if code), "")
    of_server = getattr(getattr(error, "diag", None), "message_primary", None)
    text = of_server or str(error.args[-1] if error.args else error)
    return f"{type(error).__name__}{code}: {without_values(text)}"


def _for_sqlite(value: Any) -> Any:
    is_own = value is None or isinstance(value, int | float | str | bytes)
    return value if is_own else str(value)


def _scheme(url: str) -> str:
    return url.removeprefix("jdbc:").partition(":")[0].lower()


_PARAMETER = r"(?P<operator>\?\?)|(?P<mark>\?)|%"
_NAME = r"\"(?:[^\"]|\"\")*\""
_LINE = r"--[^\n]*"


def _tokens(*kept: str) -> re.Pattern[str]:
    """Return a pattern of parameters, and of texts, names and comments, which hold none."""
    return re.compile(rf"(?P<kept>{'|'.join(kept)})|{_PARAMETER}", re.DOTALL)


def _comment(depth: int) -> str:
    """Return a pattern of comments in comments."""
    inner = rf"|{_comment(depth - 1)}" if depth else ""
    return rf"/\*(?:[^*/]|\*(?!/)|/(?!\*){inner})*\*/"


_POSTGRESQL_TOKENS = _tokens(
    r"(?<![\w$])[eE]'(?:\\.|''|[^'\\])*'",
    r"'(?:[^']|'')*'",
    _NAME,
    r"(?<![\w$])\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$",
    _LINE,
    _comment(3),
)
_MYSQL_TOKENS = _tokens(
    r"'(?:\\.|''|[^'\\])*'",
    r"\"(?:\\.|\"\"|[^\"\\])*\"",
    r"`(?:[^`]|``)*`",
    r"--(?=\s|\Z)[^\n]*",
    r"#[^\n]*",
    # The server runs what stands in /*! … */.
    r"/\*(?!M?!).*?\*/",
)
_SQLITE_TOKENS = _tokens(
    r"'(?:[^']|'')*'", _NAME, r"`(?:[^`]|``)*`", r"\[[^\]]*\]", _LINE, r"/\*.*?(?:\*/|\Z)"
)
_TOKENS = {
    "postgresql": _POSTGRESQL_TOKENS,
    "mysql": _MYSQL_TOKENS,
    "mariadb": _MYSQL_TOKENS,
    "sqlite": _SQLITE_TOKENS,
}


def translated(statement: str, scheme: str) -> tuple[str, int]:
    """Return a JDBC statement with the parameters of a Python client, and their number.

    Args:
        statement: with ``?`` for parameters, and ``??`` for an operator of that name.
    """
    found = 0
    of_qmarks = scheme == "sqlite"

    def replaced(match: re.Match[str]) -> str:
        nonlocal found
        if match.group("mark"):
            found += 1
            return "?" if of_qmarks else "%s"
        if match.group("operator"):
            return "?"
        return match.group() if of_qmarks else match.group().replace("%", "%%")

    return _TOKENS[scheme].sub(replaced, statement), found


def connect(
    url: str, account: tuple[str, str], properties: tuple[tuple[str, str], ...] = ()
) -> Any:
    """Connect to a database with its Python client.

    Args:
        account: user and password; empty for none.
    """
    given = _arguments(url, account, properties)
    scheme = _scheme(url)
    if scheme == "postgresql":
        import psycopg

        return psycopg.connect(**given)
    if scheme == "sqlite":
        import sqlite3

        return sqlite3.connect(**given)
    import pymysql

    return pymysql.connect(**given)


def _arguments(
    url: str, account: tuple[str, str], properties: tuple[tuple[str, str], ...]
) -> dict[str, Any]:
    """Return the arguments of a client's ``connect``.

    Raises:
        ConfigurationError: a parameter of the URL has no counterpart.
    """
    scheme = _scheme(url)
    place = url.removeprefix("jdbc:").partition(":")[2]
    if scheme == "sqlite":
        return {"database": place.partition("?")[0]}
    parts = urlsplit(place if place.startswith("//") else f"///{place}")
    given = {name.lower(): value for name, value in [*parse_qsl(parts.query), *properties]}
    of_scheme = _of_postgresql if scheme == "postgresql" else _of_mysql
    found = _address(parts.netloc, "5432" if scheme == "postgresql" else "3306")
    found |= of_scheme(given, unquote(parts.path.lstrip("/")))
    user, password = account
    found |= {"user": user} if user else {}
    found |= {"password": password} if password else {}
    if scheme != "postgresql":
        found["port"] = int(found["port"])
    return found


def _address(netloc: str, port: str) -> dict[str, Any]:
    """Return the host and the port, or several of each."""
    pairs = [part.rpartition(":") for part in netloc.split(",")]
    places = [
        (host.strip("[]"), number)
        if host and not number.endswith("]")
        else (part.strip("[]"), port)
        for part, (host, _, number) in zip(netloc.split(","), pairs, strict=True)
    ]
    hosts, ports = zip(*places, strict=True)
    return {"host": ",".join(hosts) or "localhost", "port": ",".join(ports)}


def _of_postgresql(given: Mapping[str, str], name: str) -> dict[str, Any]:
    found: dict[str, Any] = {"dbname": name} if name else {}
    # A timestamp without a time zone is in UTC, as in rows.
    settings = ["-c TimeZone=UTC"]
    for key, value in given.items():
        if key in _POSTGRESQL:
            found[_POSTGRESQL[key]] = value
        elif key == "ssl":
            found.setdefault("sslmode", "verify-full" if value.lower() != "false" else "prefer")
        elif key == "currentschema":
            settings.append(f"-c search_path={value}")
        elif key == "options":
            settings.append(value)
        else:
            _refuse_unknown(key)
    found["options"] = " ".join(settings)
    return found


def _of_mysql(given: Mapping[str, str], name: str) -> dict[str, Any]:
    found: dict[str, Any] = {"database": name or None, "charset": "utf8mb4"}
    variables = ["time_zone='+00:00'"]
    for key, value in given.items():
        if key in ("user", "password"):
            found[key] = value
        elif key == "connecttimeout":
            found["connect_timeout"] = max(1, int(value) // 1000)
        elif key == "sessionvariables":
            variables.append(value)
        elif key in ("sslmode", "usessl"):
            found |= _of_ssl(value.lower())
        else:
            _refuse_unknown(key)
    found["init_command"] = f"SET {', '.join(variables)}"
    return found


def _of_ssl(mode: str) -> dict[str, Any]:
    if mode not in (*_SECURE, "true"):
        return {"ssl_disabled": True} if mode in ("false", "disabled", "disable") else {}
    verified = mode.startswith("verify")
    return {
        "ssl_verify_cert": verified,
        "ssl_verify_identity": mode in ("verify_identity", "verify-full"),
        "ssl": {"check_hostname": verified and mode.endswith(("identity", "full"))},
    }


def _refuse_unknown(name: str) -> None:
    if name not in _IGNORED:
        raise ConfigurationError(
            f"The parameter {shown(name)} of jdbc_url or connection_properties is not supported by "
            "the Python client that runs statement and connection_init_sqls: leave it out."
        )

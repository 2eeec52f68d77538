"""URLs of databases that Spark reaches over JDBC."""

import re
from collections.abc import Mapping

from sparkbeam.errors import ConfigurationError

JDBC = "jdbc"
"""The format of Spark's source and sink."""

DRIVERS: Mapping[str, str] = {
    "postgresql": "org.postgresql.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
    "oracle": "oracle.jdbc.OracleDriver",
}
"""Driver classes, by the scheme after ``jdbc:``."""

_MARIADB = "jdbc:mariadb:"
_ACCOUNT = re.compile(r"jdbc:(\w+):[^?;]*//[^/?;]*@", re.IGNORECASE)
_WITHOUT_ACCOUNT = frozenset(["postgresql", "mariadb", "sqlserver"])
"""Databases whose drivers take an account in a URL for a part of the host, and repeat it."""

_PROPERTIES: Mapping[str, Mapping[str, str]] = {
    # Its errors have the values of a row otherwise, and Spark logs them.
    "postgresql": {"logServerErrorDetail": "false"},
    # Spark knows no type of UUID.
    "mariadb": {"uuidAsString": "true"},
}
"""Properties of connections that are not given otherwise, by scheme."""

_ONE_DRIVER = frozenset(["postgresql", "sqlserver", "oracle"])
"""Schemes that a single driver has."""


def account_problem(name: str, url: str, driver: str) -> str | None:
    """Return the problem of a URL with an account before the host; None for none.

    The drivers look for a host of that name, and their errors show it.

    Args:
        name: of the argument or option with the URL.
        driver: the class of the driver; empty for the one of the scheme.
    """
    found = _ACCOUNT.match(url)
    if found is None:
        return None
    scheme = "mariadb" if driver == DRIVERS["mariadb"] else found.group(1).lower()
    if scheme not in _WITHOUT_ACCOUNT:
        return None
    return f"{name} has an account before the host, which the driver of {scheme} does not accept"


def known_url(format: str | None, options: Mapping[str, str]) -> dict[str, str]:
    """Return options of a data source with a JDBC URL whose driver and dialect Spark knows.

    Spark quotes names for MariaDB only if the URL looks like one of MySQL. It does not find a
    driver of an archive that the session has got while it runs.

    Args:
        format: the name of the data source; other ones than Spark's keep their options.

    Raises:
        ConfigurationError: the URL has an account that the driver does not take.
    """
    names = {name.lower(): name for name in options}
    url = options[names["url"]] if "url" in names else ""
    if (format or "").lower() != JDBC or not url:
        return dict(options)
    given = options[names["driver"]] if "driver" in names else ""
    problem = account_problem("The option url", url, given)
    if problem is not None:
        raise ConfigurationError(f"{problem}: use the options user and password instead.")
    scheme = url.split(":")[1].lower() if url.count(":") > 1 else ""
    known = scheme in _ONE_DRIVER or scheme == "mariadb"
    more = {"driver": DRIVERS[scheme]} if known and not given else {}
    more |= {
        name: value
        for name, value in _PROPERTIES.get(scheme, {}).items()
        if name.lower() not in names and name.lower() not in url.lower()
    }
    if not url.lower().startswith(_MARIADB):
        return {**options, **more}
    mark = "&" if "?" in url else "?"
    of_mysql = f"jdbc:mysql:{url[len(_MARIADB) :]}{mark}permitMysqlScheme"
    return {**options, **more, names["url"]: of_mysql}

"""Remedies for Spark's errors about data sources."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyspark

from sparkbeam.common.database_errors import is_of_database, without_values
from sparkbeam.common.display_text import beginning
from sparkbeam.common.maven_packages import DRIVERS, package_for
from sparkbeam.errors import ConfigurationError
from sparkbeam.plan.redaction import Redaction
from sparkbeam.plan.spark_io import Options
from sparkbeam.spark.kafka_errors import kafka_remedy
from sparkbeam.upstream.spark import (
    MISSING_SOURCE,
    MISSING_TABLE,
    OTHER_VERSION,
    OTHER_VIEW,
    WRAPPED,
    cause_of,
)

_FILE_SYSTEM = re.compile(r"ClassNotFoundException: Class org\.apache\.hadoop\.fs\.(\w+)\.")
_HADOOP = {"s3a": "hadoop-aws", "azurebfs": "hadoop-azure", "azure": "hadoop-azure"}
_PY4J = "An error occurred while calling "
_LONGEST = 600
_REMEDIES = (
    (
        "COLUMN_ALREADY_EXISTS",
        "Read a query or a view whose column names differ in more than case.",
    ),
    (
        r"java\.sql\.(?:BatchUpdate|SQLData)Exception|USER_RAISED_EXCEPTION|CAST_OVERFLOW"
        r"|EXCEED_LIMIT_LENGTH|NUMERIC_VALUE_OUT_OF_RANGE",
        "Correct the rows, or the table.",
    ),
    (
        "UNRECOGNIZED_SQL_TYPE",
        "Read a query that converts the columns of this type, such as SELECT "
        "CAST(c AS VARCHAR(100)) AS c FROM t, or leaves them out.",
    ),
    (
        "JDBC_EXTERNAL_ENGINE_SYNTAX_ERROR|SQLSyntaxErrorException",
        "Correct the name of the table, which needs SQL quotes if it has capitals, spaces or dots, "
        "or correct the query.",
    ),
    (
        r"FAILED_JDBC\.CONNECTION|SQLInvalidAuthorizationSpec|SQLNonTransientConnection"
        "|authentication failed|Access denied for user|UnknownHostException|ConnectException"
        "|Login failed for user|Communications link failure",
        "Check the host, the port, the user and the password, and that Spark can reach it.",
    ),
    ("PATH_NOT_FOUND", "Correct the option path; it must be visible to Spark."),
    ("UNABLE_TO_INFER_SCHEMA", "Give the schema, or a path with files of that format."),
    (
        "REQUIRES_SINGLE_PART_NAMESPACE",
        "Write namespace.table, or begin with a catalog of the session; add one with "
        "--spark_conf=spark.sql.catalog.NAME=CLASS.",
    ),
    (
        MISSING_TABLE,
        "Correct the name, with its catalog and schema if needed, or create the table.",
    ),
    (
        OTHER_VIEW,
        "A pipeline with --streaming reads temporary views of streams; one without it reads "
        "all others. With --streaming, replace a permanent view with a query of STREAM(table).",
    ),
)
"""Remedies by a pattern of the error; the first one that matches."""


def problem(error: Exception, format: str | None, options: Options) -> str:
    """Summarize an error without secrets of the options; add a remedy to Spark's errors.

    Errors of databases have no values of rows and no parts of statements.

    Args:
        error: of a read or a write.
        format: of the data source; empty for a table or a query.
        options: of the data source or the table.
    """
    hide = Redaction(options)
    if not type(error).__module__.startswith(("pyspark.", "py4j.")):
        return beginning(f"{type(error).__name__}: {error}", _LONGEST, hide)
    cause = " ".join(_causes(str(error)) or [type(error).__name__])
    deeper = cause_of(error)
    if deeper and deeper not in cause:
        cause = f"{_sentence(cause)} {deeper}"
    if format == "jdbc" or is_of_database(f"{error} {deeper}"):
        cause = without_values(cause)
    return f"{_sentence(beginning(cause, _LONGEST, hide))} {_remedy(str(error), format, options)}"


@contextmanager
def spark_cannot(what: str, format: str | None, options: Options) -> Iterator[None]:
    """Raise errors of Spark as a ConfigurationError without secrets; others of that type stay.

    Args:
        what: what Spark cannot do, as ``read the table``.
        format: see :func:`problem`, as for ``options``.
    """
    try:
        yield
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"Spark cannot {what}: {problem(error, format, options)}"
        ) from None


def _causes(text: str) -> list[str]:
    """Return the lines with the cause: the first and the last one of Java's errors."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines or not lines[0].startswith(_PY4J):
        return lines[:1]
    told = [
        WRAPPED.sub("", line).removeprefix(":").strip()
        for line in lines[1:]
        if line.startswith((":", "Caused by:"))
    ]
    if not told:
        return lines[1:2]
    first, last = told[0], told[-1]
    message = last.partition(": ")[2] or last
    return [first] if message in first else [f"{first}: {last}" if first else last]


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _remedy(text: str, format: str | None, options: Options) -> str:
    package = _package(format, options)
    if OTHER_VERSION.search(text):
        return (
            f"The package of '{format}' is for a Spark version other than {pyspark.__version__}: "
            f"add one for this version (--spark_packages={package or '…'})."
        )
    file_system = _FILE_SYSTEM.search(text)
    if file_system and file_system[1] in _HADOOP:
        return (
            "Add the package of the file system, in the version of the session's Hadoop: "
            f"--spark_packages=org.apache.hadoop:{_HADOOP[file_system[1]]}:VERSION"
        )
    if MISSING_SOURCE.search(text):
        if package is not None:
            return f"Add its package to the session: --spark_packages={package}"
        return (
            "Correct the name, add the package that has it to the session (--spark_packages), "
            "or register a data source in Python (spark.dataSource.register)."
        )
    found = kafka_remedy(text) or next((of for it, of in _REMEDIES if re.search(it, text)), None)
    return found or f"Correct the {'format and its options' if format else 'table or the query'}."


def _package(format: str | None, options: Options) -> str | None:
    """Return the missing package of a data source, for ``--spark_packages``."""
    name = (format or "").lower()
    if name == "jdbc":
        urls = [value for key, value in options if key.lower() == "url"]
        scheme = re.match(r"jdbc:(\w+):", urls[0]) if urls else None
        found = DRIVERS.get(scheme.group(1)) if scheme else None
        return found or "GROUP:DRIVER:VERSION"
    return package_for(name, pyspark.__version__)

"""Checks that need Spark while the pipeline is being built."""

import contextlib
import numbers
import os
from collections.abc import Mapping
from typing import Any, TypeAlias

from apache_beam.pipeline import Pipeline
from pyspark.sql.types import StructType

from sparkbeam.common.arguments import shown, text
from sparkbeam.connectors.ddl import read_ddl
from sparkbeam.connectors.jdbc_urls import known_url
from sparkbeam.errors import ConfigurationError
from sparkbeam.plan.labels import applied_label
from sparkbeam.spark.session import ENDED, HasSession, SparkNotStartedError
from sparkbeam.upstream.spark import has_ended

Schema: TypeAlias = str | StructType
"""A schema as Spark's DDL, ``"a int, b string"``, or as a ``StructType``."""


def require_spark(pipeline: Pipeline, name: str) -> None:
    """Raise :class:`ConfigurationError` unless the pipeline runs on Spark."""
    if not isinstance(pipeline.runner, HasSession):
        kind = type(pipeline.runner)
        owner = kind.__module__.partition(".")[0]  # Beam's Spark runner has the same name as ours.
        raise ConfigurationError(
            f"{name} runs only on sparkbeam.SparkRunner, but the pipeline's runner is "
            f"{owner}'s {kind.__name__}: use --runner=sparkbeam.SparkRunner, "
            "or one of Beam's own transforms."
        )


def session_of(pipeline: Pipeline) -> Any:
    """Return the Spark session of the pipeline.

    Raises:
        SparkNotStartedError: none may be started; it has the label of the transform.
    """
    assert isinstance(pipeline.runner, HasSession)
    try:
        return pipeline.runner.session(pipeline.options)
    except SparkNotStartedError as error:
        error.label = applied_label(pipeline)
        raise


def checked_options(
    options: Mapping[str, Any] | None, format: str | None
) -> tuple[tuple[str, str], ...]:
    """Convert options of a data source to strings for Spark.

    Args:
        options: values by name; None for none.
        format: the name of the data source; None for that of a table.

    Raises:
        ConfigurationError: they are not a dictionary of strings, numbers or paths by name. Messages
            omit values, as they may be secret.
    """
    if options is None:
        return ()
    if not isinstance(options, Mapping):
        raise ConfigurationError(
            f"options is a {type(options).__name__}, but must be a dictionary, such as "
            "{'path': '/data/table'}."
        )
    remedy = "use names such as 'path'"
    found = {
        text("a name in options", name, remedy): _option(name, value)
        for name, value in options.items()
        if value is not None
    }
    return tuple(sorted(known_url(format, found).items()))


def _option(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    given = os.fspath(value) if isinstance(value, os.PathLike) else value
    if isinstance(given, (str, numbers.Number)):
        with contextlib.suppress(ValueError):  # A lone surrogate or an infinite number.
            found = str(given)
            found.encode()
            return found
    raise ConfigurationError(
        f"The option {shown(name)} has a value of type {type(value).__name__} that Spark rejects: "
        "use a string, a number, True, False or a path."
    )


def source_format(name: object) -> str:
    """Check the name of a data source.

    Raises:
        ConfigurationError: it is none.
    """
    return text("format", name, "use the name of a data source, such as 'parquet' or 'kafka'")


def table_name(name: object) -> str:
    """Check the name of a table.

    Raises:
        ConfigurationError: it is none.
    """
    return text("table", name, "use the name of a table, such as 'clicks' or 'catalog.db.clicks'")


def refuse_path(transform: str, table: object, options: tuple[tuple[str, str], ...]) -> None:
    """Raise a :class:`ConfigurationError` if a table also has a path."""
    if any(name.lower() == "path" for name, _ in options):
        raise ConfigurationError(
            f"{transform} has both table={shown(table)} and the option 'path': a table has its "
            "own location. Leave one of them out; CREATE TABLE … LOCATION creates a table of "
            "the files at a path."
        )


def checked_schema(schema: object) -> Schema | None:
    """Check a schema given by the user; None for none.

    Raises:
        ConfigurationError: it is neither DDL nor a ``StructType``.
    """
    if schema is None or isinstance(schema, StructType):
        return schema
    remedy = "write it as DDL, such as 'id bigint, name string', or as a StructType"
    return text("schema", schema, remedy)


def parsed(schema: Schema, pipeline: Pipeline) -> StructType:
    """Return a schema as a ``StructType``; Spark parses DDL, where it may be started.

    Raises:
        ConfigurationError: the DDL is invalid.
        SparkNotStartedError: only Spark can read the DDL.
    """
    if isinstance(schema, StructType):
        return schema
    try:
        session = session_of(pipeline)
    except SparkNotStartedError:
        known = read_ddl(schema)
        if known is None:
            raise
        return known
    try:
        found: StructType = session.createDataFrame([], schema).schema
    except Exception as error:
        if has_ended(session):
            raise ConfigurationError(ENDED) from error
        raise ConfigurationError(
            f"schema={shown(schema)} is not a Spark schema: {first_line(error)} "
            "Write it as DDL, such as 'id bigint, name string'."
        ) from error
    return found


def first_line(error: Exception) -> str:
    """Return the first line of Spark's error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__

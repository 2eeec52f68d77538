"""Dead letters of queries."""

from typing import Any

import apache_beam as beam
from apache_beam.transforms.sql import SqlTransform

from sparkbeam.common.arguments import shown
from sparkbeam.errors import ConfigurationError
from sparkbeam_sql import transform as sql


def with_sql_dead_letters(transform: "beam.PTransform[Any, Any]", /) -> "beam.PTransform[Any, Any]":
    """Return a query on which no row fails the pipeline.

    Its result is a pair: the rows of the query, and a PCollection of the rows on which one of its
    expressions fails, each with the type, the text and the traceback of the error, as Beam's
    ``with_exception_handling`` has them. A row is one of the step that failed: of the table, or of
    the subquery or group that the expression is about. The query runs row by row, as in windows.

    Args:
        transform: Beam's ``SqlTransform``, or the result of :func:`with_sql_functions`.

    Raises:
        ConfigurationError: it is no query; when it is applied: the pipeline has another runner.
        UnsupportedTransform: when it is applied: a clause has no counterpart in windows.
    """
    if isinstance(transform, SqlTransform):
        transform = sql.with_functions(transform, {})
    if not isinstance(transform, sql.SparkSql):
        raise ConfigurationError(f"{shown(transform)} is not a SqlTransform.")
    return transform.with_dead_letters()

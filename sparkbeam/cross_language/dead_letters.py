"""Dead letters: of steps, which get what the coder of their output refuses, and of queries."""

from typing import Any

import apache_beam as beam
from apache_beam.pipeline import Pipeline
from apache_beam.transforms.sql import SqlTransform

from sparkbeam.common.arguments import shown
from sparkbeam.cross_language.encodable import Encodable
from sparkbeam.errors import ConfigurationError
from sparkbeam.upstream.dead_letters import check_outputs


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
    from sparkbeam.cross_language.sql import transform as sql

    if isinstance(transform, SqlTransform):
        transform = sql.with_functions(transform, {})
    if not isinstance(transform, sql.SparkSql):
        raise ConfigurationError(f"{shown(transform)} is not a SqlTransform.")
    return transform.with_dead_letters()


def checked(transform: Any, pipeline: Pipeline) -> None:
    """Have the outputs of a transform checked; Beam applies it itself."""
    check_outputs(transform, _check)


def _check(kind: Any) -> Encodable | None:
    found = Encodable(kind)
    return found if found.decides else None

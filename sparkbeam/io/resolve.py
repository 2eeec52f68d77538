"""What the transforms have to ask Spark about while the pipeline is being built."""

from typing import Any, TypeAlias

from apache_beam.pipeline import Pipeline
from pyspark.sql.types import StructType

from sparkbeam.errors import ConfigurationError

Schema: TypeAlias = str | StructType
"""A schema as Spark's DDL, ``"a int, b string"``, or as its own type."""


def require_spark(pipeline: Pipeline, name: str) -> None:
    """Raises :class:`ConfigurationError` unless the pipeline is to run on Spark."""
    from sparkbeam.runner import SparkRunner

    if not isinstance(pipeline.runner, SparkRunner):
        raise ConfigurationError(
            f"{name} runs on sparkbeam.SparkRunner alone, and the pipeline's runner is "
            f"{_full_name(pipeline.runner)}: choose --runner=sparkbeam.SparkRunner, "
            "or a transform of Beam's own."
        )


def _full_name(runner: object) -> str:
    """With the package, as Beam's own runner for Spark has the same name as ours."""
    kind = type(runner)
    return f"{kind.__module__.partition('.')[0]}'s {kind.__name__}"


def session_of(pipeline: Pipeline) -> Any:
    """The Spark session that the pipeline will run on."""
    return pipeline.runner.session(pipeline.options)


def checked_options(options: dict[str, Any] | None) -> tuple[tuple[str, str], ...]:
    """Options as Spark takes them: texts."""
    found = {
        str(name): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in (options or {}).items()
        if value is not None
    }
    return tuple(sorted(found.items()))


def parsed(schema: Schema, pipeline: Pipeline) -> StructType:
    """A schema as Spark's type; a text is parsed by Spark itself.

    Raises:
        ConfigurationError: the text is none of a schema.
    """
    if isinstance(schema, StructType):
        return schema
    try:
        found: StructType = session_of(pipeline).createDataFrame([], schema).schema
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"schema={schema!r} is no schema of Spark: {first_line(error)} "
            "Write it as DDL, such as 'id bigint, name string'."
        ) from error
    return found


def first_line(error: Exception) -> str:
    """What an error of Spark says in short."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__

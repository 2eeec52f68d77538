"""The rows of a DataFrame that a program has."""

from collections.abc import Sequence
from typing import Any

from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.pvalue import PBegin, PCollection

from sparkbeam import arguments
from sparkbeam.connectors import frames, resolve
from sparkbeam.errors import ConfigurationError
from sparkbeam.io.read import ReadFromSpark

_ATTRIBUTES = ("schema", "select", "isStreaming", "sparkSession")


class FromDataFrame(ReadFromSpark):
    """Reads a DataFrame of the Spark session on which the pipeline runs, in batch.

    The elements are rows, as those of :class:`ReadFromSpark`. Spark plans the DataFrame with the
    pipeline: nothing is computed before that runs. Of a DataFrame that is nothing but columns of
    Parquet files the workers read these by themselves, where all of Spark is on this machine.

    Args:
        frame: the DataFrame. It has to stay usable until the pipeline has run.
        timestamp_column: the column with the event time, of any type that Spark can cast to a
            timestamp; it must not be null. Without one elements have the earliest timestamp.
        columns: which columns to read; all if None.

    Raises:
        ConfigurationError: when it is made or applied: it is no DataFrame, or a stream, has no such
            column, or belongs to another session, or the pipeline is a stream or runs on another
            runner.
    """

    def __init__(
        self,
        frame: Any,
        timestamp_column: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        if isinstance(frame, type) or not all(hasattr(type(frame), name) for name in _ATTRIBUTES):
            raise ConfigurationError(
                f"frame={arguments.shown(frame)} is no DataFrame of pyspark.sql."
            )
        if frame.isStreaming:
            raise ConfigurationError(
                "FromDataFrame takes no stream: use ReadFromSpark with the format and the options "
                "of its source in a pipeline with --streaming."
            )
        super().__init__(
            frames.GIVEN,
            {"number": frames.give(frame)},
            timestamp_column=timestamp_column,
            columns=columns,
        )
        self._frame = frame

    def default_label(self) -> str:
        return "FromDataFrame"

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        pipeline = pbegin.pipeline
        resolve.require_spark(pipeline, "FromDataFrame")
        if pipeline.options.view_as(StandardOptions).streaming:
            raise ConfigurationError(
                "FromDataFrame is for pipelines in batch, and this one has --streaming: use "
                "ReadFromSpark, or leave the option out."
            )
        session = resolve.session_of(pipeline)
        if _identity(session) != _identity(self._frame.sparkSession):
            raise ConfigurationError(
                "The DataFrame of FromDataFrame belongs to another Spark session than the "
                "pipeline: use SparkRunner(frame.sparkSession)."
            )
        return super().expand(pbegin)


def _identity(session: Any) -> tuple[type, Any]:
    """What sessions have in common whose DataFrames may meet in one query."""
    # Classic sessions of a program share its Spark context; those of Connect share nothing.
    return type(session), getattr(session, "session_id", None)

"""Rows of an existing DataFrame."""

from collections.abc import Sequence
from typing import Any

from apache_beam.pvalue import PBegin, PCollection

from sparkbeam.common import arguments
from sparkbeam.connectors import resolve, source_frames
from sparkbeam.errors import ConfigurationError
from sparkbeam.io.read import ReadFromSpark
from sparkbeam.plan.spark_io import ReadSpec

_ATTRIBUTES = ("schema", "select", "isStreaming", "sparkSession")


class FromDataFrame(ReadFromSpark):
    """Reads a DataFrame of the Spark session on which the pipeline runs.

    The elements are rows, as those of :class:`ReadFromSpark`. Spark plans the DataFrame with the
    pipeline: nothing is computed before it runs. If the DataFrame consists of nothing but columns
    of Parquet files, and Spark is local, the workers read the files directly.

    A streaming DataFrame is read in a pipeline with ``--streaming``. It becomes part of the
    pipeline's query: its offsets, and the state of its joins and aggregations, are in the
    pipeline's checkpoint. After a restart the program must create the same DataFrame again. Spark's
    own watermark, ``withWatermark``, controls its operators, and has no effect on the pipeline.

    Args:
        frame: the DataFrame. It must stay usable until the pipeline has run.
        timestamp_column: the column with the event time, of any type that Spark can cast to a
            timestamp; it must not be null. By default elements have the earliest timestamp, in
            streaming the time of their micro-batch.
        columns: the columns to read; None for all.
        watermark_delay: see :class:`ReadFromSpark`, as for the following ones.
        partition_column: likewise. By default, files are complete once they have been read if each
            row has its file (``_metadata.file_path``); otherwise there is one partition.

    Raises:
        ConfigurationError: when it is created or applied: it is not a DataFrame, lacks a column,
            belongs to another session, is a stream in a batch pipeline or the reverse, or the
            pipeline has another runner.
    """

    def __init__(
        self,
        frame: Any,
        timestamp_column: str | None = None,
        columns: Sequence[str] | None = None,
        *,
        watermark_delay: float = 0,
        partition_column: str | Sequence[str] | None = None,
        idle_timeout: float | None = None,
        follow_clock_when_idle: bool = False,
    ) -> None:
        if isinstance(frame, type) or not all(hasattr(type(frame), name) for name in _ATTRIBUTES):
            raise ConfigurationError(
                f"frame={arguments.shown(frame)} is not a DataFrame of pyspark.sql."
            )
        super().__init__(
            "DataFrame",
            timestamp_column=timestamp_column,
            watermark_delay=watermark_delay,
            columns=columns,
            partition_column=partition_column,
            idle_timeout=idle_timeout,
            follow_clock_when_idle=follow_clock_when_idle,
        )
        self._origin = ReadSpec(frame=source_frames.give(frame))
        self._frame = frame

    def default_label(self) -> str:
        return "FromDataFrame"

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        pipeline = pbegin.pipeline
        resolve.require_spark(pipeline, "FromDataFrame")
        session = resolve.session_of(pipeline)
        if _identity(session) != _identity(self._frame.sparkSession):
            raise ConfigurationError(
                "The DataFrame of FromDataFrame belongs to a different Spark session than "
                "the pipeline: use SparkRunner(frame.sparkSession)."
            )
        return super().expand(pbegin)


def _identity(session: Any) -> tuple[type, Any]:
    """Return the identity of a session, equal if their DataFrames can meet in one query."""
    # Classic sessions of a program share its Spark context; those of Connect share nothing.
    return type(session), getattr(session, "session_id", None)

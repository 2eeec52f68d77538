"""PCollections as Spark DataFrames, for Spark programs with parts written in Beam."""

from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection, PDone
from pyspark.sql.types import MapType, StructField, StructType, TimestampType

from sparkbeam.batch.lazy_frame import LazyExecution
from sparkbeam.common import arguments
from sparkbeam.common.display_text import shortened
from sparkbeam.connectors import resolve
from sparkbeam.connectors.schemas import spark_field, spark_schema, untyped_fields
from sparkbeam.errors import ConfigurationError
from sparkbeam.io.write import to_dataframe
from sparkbeam.options import spark_options
from sparkbeam.plan.labels import without_cells
from sparkbeam.plan.pruning import last_applied, pruned
from sparkbeam.runner.spark_runner import SparkRunner
from sparkbeam.spark.failures import explained
from sparkbeam.spark.interrupts import interruptible
from sparkbeam.spark.provision import provided
from sparkbeam.upstream.beam import applied_for_now
from sparkbeam.upstream.spark import no_foreign_types
from sparkbeam.wire.failure import FailureReports
from sparkbeam.wire.output_lines import OutputSpec

_VALUE = "value"
_NAME = "as_dataframe"

_in_use: list[LazyExecution] = []
"""Executions whose collected data is read by DataFrames; the end of their use is unknown."""


def as_dataframe(
    pcollection: PCollection[Any],
    schema: resolve.Schema | None = None,
    *,
    timestamps: str | None = None,
) -> Any:
    """Return a PCollection of a batch pipeline as a lazy DataFrame of its session.

    Only the steps that lead to the PCollection become part of Spark's query. They run on each
    action on the DataFrame; results are not kept, unless by its own ``cache()``. Two things happen
    immediately: the pipeline is translated, and side inputs of these steps are collected, once.
    Data that several steps read is persisted by Spark when it is first computed, so that they see
    the same elements, until ``spark.catalog.clearCache()``. The pipeline is unchanged and need not
    be run. Metrics of these steps are not reported.

    An error in a step is an exception of Spark; its text begins with the label of the step.

    Args:
        pcollection: rows, NamedTuples or dictionaries, whose fields become columns; or numbers,
            strings, bytes or times, in one column ``value``. Windows are dropped.
        schema: of the rows, as Spark's DDL or ``StructType``. By default it is derived from the
            PCollection's type. A missing field of a dictionary is null.
        timestamps: the name of an additional last column with the elements' timestamps; null for
            elements without one, or with one outside the years 1 to 9999. None for no column.

    Raises:
        ConfigurationError: it is not a PCollection, has no schema, is unbounded, or its pipeline
            has another runner.
        UnsupportedTransform: a transform cannot run.
        PipelineFailed: a side input cannot be collected.
    """
    pipeline = _checked(pcollection)
    runner: Any = pipeline.runner
    options = spark_options.checked(pipeline.options)
    with interruptible():
        with applied_for_now(pcollection, _AsDataFrame(schema, timestamps)):
            plan = runner._plan(pipeline, options, _last_applied)
        session = runner.session(pipeline.options)
        reports = FailureReports(redaction=runner._redaction(plan, options))
        execution = LazyExecution(
            session,
            plan,
            parallelism=options.spark_parallelism,
            temp_location=spark_options.temp_location(options),
            output=OutputSpec(spark_options.log_levels(options)),
            environment=provided(session, options),
            reports=reports,
        )
        try:
            with no_foreign_types():
                frame = execution.dataframe()
        except BaseException as error:
            execution.close()
            if not isinstance(error, Exception):
                raise
            failed = explained(error, reports)
            raise failed from failed.__cause__
    if any(stage.side_inputs for stage in plan.stages):
        _in_use.append(execution)
    return frame


def _checked(pcollection: Any) -> beam.Pipeline:
    """Return the pipeline of a PCollection.

    Raises:
        ConfigurationError: it cannot become a DataFrame.
    """
    if not isinstance(pcollection, PCollection):
        raise ConfigurationError(
            f"pcollection={arguments.shown(pcollection)} is not a PCollection: give the one to "
            "convert to a DataFrame, such as rows = pipeline | …"
        )
    pipeline = pcollection.pipeline
    resolve.require_spark(pipeline, _NAME)
    if not isinstance(pipeline.runner, SparkRunner):
        raise ConfigurationError(
            f"{_NAME} needs a pipeline on sparkbeam.SparkRunner itself, not on a runner around it: "
            "use beam.Pipeline(SparkRunner())."
        )
    return pipeline


def _last_applied(proto: Any, options: Any) -> Any:
    """Return the part of a pipeline that leads to the transform applied last, the DataFrame.

    Raises:
        ConfigurationError: it is unbounded.
    """
    part = pruned(proto, last_applied(proto))
    if SparkRunner._is_streaming(part, options):
        raise ConfigurationError(
            f"{_NAME} needs a batch pipeline, but this one is streaming: use "
            "sparkbeam.io.ForeachBatch, which gets each micro-batch as a DataFrame, or "
            "WriteToSpark, and read its output with spark.readStream."
        )
    return part


class _AsDataFrame(beam.PTransform[PCollection[Any], PDone]):
    """Conversion of a PCollection to rows of the DataFrame."""

    def __init__(self, schema: resolve.Schema | None, timestamps: str | None) -> None:
        super().__init__()
        self._given = resolve.checked_schema(schema)
        self._time = timestamps
        if timestamps is not None:
            arguments.text("timestamps", timestamps, "use the name of a column")

    def default_label(self) -> str:
        return _NAME

    def expand(self, elements: PCollection[Any]) -> PDone:
        schema, whole = self._schema(elements)
        if self._time is not None:
            if self._time in schema.names:
                raise ConfigurationError(
                    f"timestamps={arguments.shown(self._time)}: the schema has a column of this "
                    "name; use another one."
                )
            schema = StructType([*schema.fields, StructField(self._time, TimestampType())])
        return to_dataframe(elements, schema, whole=whole, timed=self._time is not None)

    def _schema(self, elements: PCollection[Any]) -> tuple[StructType, bool]:
        """Return the columns, and whether an element is the value of a single column."""
        if self._given is not None:
            return resolve.parsed(self._given, elements.pipeline), False
        kind = elements.element_type
        rows = spark_schema(kind)
        if rows is not None:
            return rows, False
        column = spark_field(_VALUE, kind)
        # A dictionary's keys are meant to be columns, but their names are unknown.
        if column is not None and not isinstance(column.dataType, MapType):
            return StructType([column]), True
        producer = without_cells(elements.producer.full_label) if elements.producer else "?"
        raise ConfigurationError(
            f"{_NAME} cannot make columns of the output of '{producer}', of the type "
            f"{shortened(str(kind), 100)}{untyped_fields(kind)}. Declare its fields and their "
            "types: with_output_types(…) of a NamedTuple, beam.Row(id=int(…)) or, also "
            "for dictionaries, schema='id bigint, …'."
        )

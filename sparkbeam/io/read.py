"""Rows of a Spark data source as a PCollection."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.pvalue import PBegin, PCollection
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import GlobalWindows
from pyspark.sql.types import StructField, StructType

from sparkbeam.common import arguments
from sparkbeam.common.entry_points import SOURCES, function
from sparkbeam.common.step_errors import errors_naming
from sparkbeam.connectors import resolve, source_frames
from sparkbeam.connectors.hook_errors import hook_errors
from sparkbeam.connectors.problems import spark_cannot
from sparkbeam.connectors.schemas import METADATA, field_at, row_type
from sparkbeam.connectors.storage import FILE_FORMATS
from sparkbeam.connectors.written_schemas import written_schema
from sparkbeam.errors import ConfigurationError
from sparkbeam.plan.labels import applied_label
from sparkbeam.plan.source_hooks import SourceHooks
from sparkbeam.plan.spark_io import READ_URN, ReadSpec
from sparkbeam.upstream.spark import is_imported, no_foreign_types


class ReadFromSpark(beam.PTransform[PBegin, PCollection[Any]]):
    """Reads with ``spark.read`` or, in a streaming pipeline, ``spark.readStream``.

    The elements are rows with the columns as attributes; nullable columns are ``Optional``. They
    are in the global window. They are encoded by the tasks that read them, so a source is read in
    as many tasks as Spark creates. In batch on a local Spark, the tasks read Parquet files directly
    if the result is the same.

    In streaming, an element that is older than the watermark when it is read is late, as everywhere
    in Beam. Each partition of the source has a watermark: its latest timestamp in all micro-batches
    so far minus ``watermark_delay``. The watermark of the source is their minimum; without
    ``timestamp_column`` it follows the clock. Such a pipeline runs until it is cancelled.

    Args:
        format: the name of a data source: ``"parquet"``, ``"kafka"``, ``"delta"``, …
        options: of the data source or the table, such as ``path`` or ``maxFilesPerTrigger``.
        schema: of the files, as Spark's DDL or ``StructType``. By default the source is asked,
            which needs a Spark session while the pipeline is built, as does DDL.
        timestamp_column: the column with the event time, of any type that Spark can cast to a
            timestamp; it must not be null. ``"_metadata.file_modification_time"`` is the time of
            the file. By default the elements have the time of their micro-batch in streaming, and
            the earliest timestamp in batch.
        watermark_delay: how far elements may be behind the newest one of their partition, in
            seconds.
        partition_column: the column, or columns, that identify the partition of a row. Kafka's
            partitions are known; ``[]`` merges them into one. Files are complete once they have
            been read; all other sources have one partition by default.
        idle_timeout: the seconds without rows after which a partition no longer holds the watermark
            back; None for never.
        follow_clock_when_idle: once all partitions have been silent for ``idle_timeout``, the
            watermark follows the clock minus ``watermark_delay``, so that the last windows end. Not
            for rows whose timestamps are far behind the clock: they would be late.
        columns: the columns to read; None for all. A dotted path leads into structs: the row has
            its last name. ``"_metadata.file_path"`` is the path of the file; Spark has more
            metadata there.
        table: instead of a format: the name of a table or view of the session, as in
            ``spark.table`` and ``spark.readStream.table``.
        query: instead of a format: an SQL query. In streaming it reads tables with
            ``STREAM(table)``, or views of streaming DataFrames.

    Raises:
        ConfigurationError: when it is created or applied: Spark cannot read the source, a column or
            table does not exist, or the pipeline has another runner.
    """

    def __init__(
        self,
        format: str | None = None,
        options: dict[str, Any] | None = None,
        schema: resolve.Schema | None = None,
        timestamp_column: str | None = None,
        watermark_delay: float = 0,
        columns: Sequence[str] | None = None,
        *,
        partition_column: str | Sequence[str] | None = None,
        idle_timeout: float | None = None,
        follow_clock_when_idle: bool = False,
        table: str | None = None,
        query: str | None = None,
    ) -> None:
        super().__init__()
        self._origin = _origin(format, options, table, query)
        if schema is not None and not self._origin.format:
            raise ConfigurationError(
                f"schema= is only for files, but {self._origin.what} has its own columns: omit it, "
                "or cast in a query."
            )
        self._schema = resolve.checked_schema(schema)
        self._timestamp_column = timestamp_column
        if timestamp_column is not None:
            arguments.text("timestamp_column", timestamp_column, "use the name of a column")
        self._columns = None if columns is None else arguments.names("columns", columns, _LIST)
        self._delay = _micros("watermark_delay", watermark_delay)
        if idle_timeout is not None and not _micros("idle_timeout", idle_timeout):
            raise ConfigurationError(
                f"idle_timeout={idle_timeout} must be a duration in seconds above 0, or None for "
                "never."
            )
        arguments.flag("follow_clock_when_idle", follow_clock_when_idle)
        if follow_clock_when_idle and idle_timeout is None:
            raise ConfigurationError(
                "follow_clock_when_idle=True needs idle_timeout=, the seconds without rows after "
                "which the source counts as idle."
            )
        if timestamp_column is None and (partition_column or idle_timeout is not None):
            raise ConfigurationError(
                "partition_column and idle_timeout refer to the timestamps of rows: give a "
                "timestamp_column, or omit them."
            )
        by = [partition_column] if isinstance(partition_column, str) else partition_column
        self._given_partition = (
            None if by is None else arguments.names("partition_column", by, _LIST, least=0)
        )
        self._partition_columns: tuple[str, ...] = ()
        self._idle = None if idle_timeout is None else _micros("idle_timeout", idle_timeout)
        self._follows_clock = follow_clock_when_idle
        self._spec: ReadSpec | None = None
        self._has_foreign_types = False
        self._metadata: StructField | None = None

    def default_label(self) -> str:
        return f"ReadFromSpark({self._origin.format or self._origin.table or 'SQL'})"

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        pipeline = pbegin.pipeline
        resolve.require_spark(pipeline, "ReadFromSpark")
        streaming = self._is_streaming(pipeline)
        given = None if self._schema is None else resolve.parsed(self._schema, pipeline)
        label = applied_label(pipeline)
        with hook_errors(self._origin, label, ConfigurationError):
            hooks = self._hooks()
        by = self._given_partition
        self._partition_columns = hooks.partition_columns if by is None else by
        spec = replace(
            self._origin,
            hooks=hooks,
            schema=given.json() if given is not None else None,
            columns=tuple(self._columns or ()),
            timestamp_column=self._timestamp_column,
            delay=self._delay,
        )
        self._has_foreign_types = False
        self._metadata = METADATA if self._origin.format.lower() in _FILES else None
        whole = given if given is not None else self._ask(spec, pipeline, streaming=streaming)
        selected, nested = self._select(whole)
        if self._has_foreign_types or (spec.format.lower() == "parquet" and not streaming):
            # Otherwise Spark would look it up again, in a job, when the pipeline runs.
            spec = replace(spec, schema=whole.json())
        self._spec = self._with_details(
            spec,
            columns=self._columns or tuple(selected.names),
            nested=nested,
            partition_columns=self._partition_columns,
            tells_partitions=bool(self._partition_columns)
            and self._partition_columns == hooks.partition_columns,
            by_files=self._metadata is not None
            and not self._partition_columns
            and METADATA.name not in whole.names,
            idle=self._idle,
            follows_clock=self._follows_clock,
        )
        if streaming:
            with hook_errors(self._spec, label, ConfigurationError):
                hooks.check(asks_hidden=self._spec.asks_hidden)
        with errors_naming(label):
            kind = self._element_type(selected)
        return PCollection(pipeline, element_type=kind, is_bounded=not streaming)

    def _is_streaming(self, pipeline: beam.Pipeline) -> bool:
        """Return whether the rows come from ``spark.readStream``."""
        return bool(pipeline.options.view_as(StandardOptions).streaming)

    def _with_details(self, spec: ReadSpec, **more: Any) -> ReadSpec:
        """Return the spec with further properties."""
        return replace(spec, **more)

    def _hooks(self) -> SourceHooks:
        """Return the hooks of the data source."""
        name = self._origin.format.lower()
        make = function(SOURCES, name)
        if make is None:
            return SourceHooks()
        found = make({key.lower(): value for key, value in self._origin.options})
        if not isinstance(found, SourceHooks):
            raise TypeError(f"{SOURCES} must return SourceHooks, got {type(found).__name__}.")
        return found

    def _element_type(self, schema: StructType) -> Any:
        """Return the type of the elements."""
        try:
            return row_type(schema)
        except ValueError as error:
            raise ConfigurationError(
                f"A column cannot be an attribute of a row: {error}. Read a query or a view that "
                "renames it, or omit it with columns=[…] of ReadFromSpark."
            ) from None

    def _ask(self, spec: ReadSpec, pipeline: beam.Pipeline, *, streaming: bool) -> StructType:
        """Return the schema of the source."""
        session = resolve.session_of(pipeline)
        written = None if streaming else written_schema(session, spec)
        if written is not None:
            return written
        asking = spark_cannot(f"determine the schema of {spec.what}", spec.format, spec.options)
        try:
            with asking, no_foreign_types() as met:
                frame = source_frames.loaded(session, spec, streaming=streaming)
                found: StructType = frame.schema
        except ConfigurationError as error:
            raise ConfigurationError(f"'{self.label}': {error}") from None
        names = [*(self._columns or ()), *self._times()]
        of_files = streaming or any(name.split(".")[0] == METADATA.name for name in names)
        if not spec.format and of_files:
            self._metadata = source_frames.file_metadata(frame)
        if spec.format.lower() in _FILES:
            self._has_foreign_types = bool(met)
            return found
        for foreign in met:
            # The types of a table are data: they must not cause code to run. A schema without them
            # can only be given for files.
            if not is_imported(foreign):
                raise ConfigurationError(
                    f"'{self.label}': {self._origin.what} has a column of the "
                    f"user-defined type {arguments.shown(foreign)[1:-1]}. Import its module in the "
                    "program, if you trust it, or read a view that casts the column."
                )
        return found

    def _select(self, schema: StructType) -> tuple[StructType, tuple[str, ...]]:
        """Return the columns of the rows, and the names of all columns within structs."""
        wanted = schema.names if self._columns is None else self._columns
        names = [*wanted, *self._times()]
        hidden = [] if METADATA.name in schema.names else [self._metadata]
        whole = StructType([*schema.fields, *filter(None, hidden)])
        found = {name: self._field(whole, name) for name in names}
        selected = StructType([found[name] for name in wanted])
        for name in selected.names:
            if selected.names.count(name) > 1:
                raise ConfigurationError(
                    f"columns: two of them would be named {arguments.shown(name)} in a row: read "
                    "the whole struct of one of them."
                )
        return selected, tuple(name for name in names if name not in whole.names)

    def _times(self) -> list[str]:
        """Return the columns needed only for timestamps and partitions."""
        if self._timestamp_column is None:
            return []
        return [self._timestamp_column, *self._partition_columns]

    def _field(self, schema: StructType, name: str) -> StructField:
        field = field_at(schema, name)
        if field is None:
            raise ConfigurationError(
                f"'{self.label}': {self._origin.what} has no column "
                f"{arguments.shown(name)}, only {arguments.listed(schema.names)}."
            )
        return field

    def get_windowing(self, inputs: Any) -> Windowing:
        return Windowing(GlobalWindows())

    def to_runner_api_parameter(self, unused_context: Any) -> tuple[str, bytes]:
        assert self._spec is not None
        return READ_URN, self._spec.pack()


_LIST = "use a list, such as ['id', 'name']"
_LONGEST = 1e9  # Seconds; thirty years.
_FILES = FILE_FORMATS | {"binaryfile"}


def _origin(
    format: str | None, options: dict[str, Any] | None, table: str | None, query: str | None
) -> ReadSpec:
    """Return the source, with all its columns.

    Raises:
        ConfigurationError: none or several sources are given.
    """
    given = {"format": format, "table": table, "query": query}
    names = [f"{name}={arguments.shown(it)}" for name, it in given.items() if it is not None]
    if len(names) != 1:
        what = f"reads one source, got {' and '.join(names)}" if names else "has no source"
        raise ConfigurationError(
            f"ReadFromSpark {what}: give a format, such as 'parquet', or table= with the name of a "
            "table or view, or query= with a query in SQL."
        )
    source = None if format is None else resolve.source_format(format)
    known = resolve.checked_options(options, source)
    if table is not None:
        resolve.refuse_path("ReadFromSpark", table, known)
        return ReadSpec(options=known, table=resolve.table_name(table))
    if query is not None:
        if known:
            raise ConfigurationError(
                "ReadFromSpark(query=…) does not accept options: write the options of a table "
                "into the query, or give table= or a format."
            )
        text = arguments.text("query", query, "write one in SQL, such as 'SELECT * FROM clicks'")
        return ReadSpec(query=text.strip().rstrip(";"))
    return ReadSpec(source or "", known)


def _micros(name: str, seconds: float) -> int:
    return round(arguments.duration(name, seconds, "seconds", most=_LONGEST) * 1_000_000)

"""Reads of tables of a format that needs a package and settings of the session."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyspark
from apache_beam.coders import registry
from apache_beam.internal import pickler
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.pvalue import PBegin, PCollection

from sparkbeam.common.maven_packages import released, versions_of
from sparkbeam.common.step_errors import errors_naming
from sparkbeam.connectors import resolve, source_frames
from sparkbeam.connectors.problems import spark_cannot
from sparkbeam.errors import ConfigurationError
from sparkbeam.io.dataframe import FromDataFrame
from sparkbeam.options.spark_options import SparkBeamOptions, settings
from sparkbeam.plan.labels import applied_label
from sparkbeam.plan.spark_io import Options, ReadSpec
from sparkbeam.spark.jars import add_jars
from sparkbeam.spark.session import HasSession
from sparkbeam.upstream.spark import has_class, is_classic
from sparkbeam_tables.collected_rows import CollectedRows


@dataclass(frozen=True)
class TableFormat:
    """A format of tables.

    Attributes:
        java_class: one of its classes, by which a session shows that it has the package.
        settings: of a session that is created for it.
    """

    name: str
    java_class: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def session(self, pipeline: beam.Pipeline) -> Any:
        """Return the session of a pipeline, with the package of the format.

        Raises:
            ConfigurationError: there is no package for this version of Spark, or the session cannot
                get it.
        """
        package = released(self.name, pyspark.__version__)
        options = pipeline.options.view_as(SparkBeamOptions)
        assert isinstance(pipeline.runner, HasSession)
        if not pipeline.runner.has_session(options) and not options.spark_connect:
            self._prepare(options, package)
        session = resolve.session_of(pipeline)
        if not is_classic(session) or has_class(session, self.java_class):
            return session
        if package is None:
            raise ConfigurationError(
                f"The session lacks the package of '{self.name}', and no release for Spark "
                f"{pyspark.__version__} is known: use PySpark {' or '.join(versions_of(self.name))}"
                ", or add a package to the session with --spark_packages=GROUP:ARTIFACT:VERSION."
            )
        add_jars(session, [package], "--spark_packages")
        return session

    def _prepare(self, options: SparkBeamOptions, package: str | None) -> None:
        """Add what a session that is about to be created needs."""
        given = settings(options)
        names = [name for name in self.settings if name not in given]
        options.spark_conf = [
            *(options.spark_conf or []),
            *(f"{name}={self.settings[name]}" for name in names),
        ]
        if package is not None and not {"spark.jars", "spark.jars.packages"} & given.keys():
            options.spark_packages = [package]


@dataclass(frozen=True)
class TableRows:
    """Rows of a table.

    Attributes:
        columns: the columns of the rows; None for all.
        time: the column with the timestamps of the elements; None for none.
    """

    frame: Any
    columns: Sequence[str] | None = None
    time: str | None = None


Rows = Callable[[Any], TableRows]
"""Function from the session to the rows of a read that ends."""

Follow = Callable[[Any, int | None], TableRows]
"""Function from the session, and the most rows of a micro-batch, to those of a streaming read."""


class ReadTable(beam.PTransform[PBegin, PCollection[Any]]):
    """Reads the rows of a table.

    Args:
        rows: the rows, if the read ends.
        follow: the rows, if it has no end; None for a read that ends in any pipeline.
        endless: it has no end in any pipeline, otherwise in a streaming one alone.
    """

    def __init__(
        self,
        format: TableFormat,
        what: str,
        rows: Rows,
        *,
        follow: Follow | None = None,
        endless: bool = False,
        options: Options = (),
    ) -> None:
        super().__init__()
        self._format = format
        self._what = what
        self._rows = rows
        self._follow = follow
        self._endless = endless
        self._options = options

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        pipeline = pbegin.pipeline
        streaming = pipeline.options.view_as(StandardOptions).streaming
        with errors_naming(applied_label(pipeline)):
            follow = self._follow if streaming or self._endless else None
            session = self._format.session(pipeline)
            most = pipeline.options.view_as(SparkBeamOptions).max_batch_elements
            with spark_cannot(f"read {self._what}", self._format.name, self._options):
                rows = follow(session, most) if follow else self._rows(session)
                _ = rows.frame.schema
        return pbegin | "Read" >> reading(pipeline, rows, self._options)


_IDLE_MICROS = 60_000_000
_LAG_MICROS = 300_000_000
"""Lag of the watermark of a table without new rows, as in Beam's reads of changes."""


def reading(
    pipeline: beam.Pipeline, rows: TableRows, options: Options
) -> "beam.PTransform[PBegin, PCollection[Any]]":
    """Return the transform that reads rows.

    Args:
        rows: of a table; those of a read that ends are collected in a streaming pipeline.
    """
    read = _ReadFrame(rows, options)
    streaming = pipeline.options.view_as(StandardOptions).streaming
    return _ReadOnce(read) if streaming and not rows.frame.isStreaming else read


class _ReadFrame(FromDataFrame):
    """Rows of a table, whose options have secrets.

    In streaming the watermark is the newest timestamp of the rows. Without new ones it follows the
    clock.
    """

    def __init__(self, rows: TableRows, options: Options) -> None:
        super().__init__(rows.frame, rows.time, rows.columns)
        self.secrets = options

    def described(self, pbegin: PBegin) -> tuple[ReadSpec, Any]:
        """Return the read in batch, and the type of the elements."""
        kind = self.expand(pbegin).element_type
        assert self._spec is not None
        coder = pickler.dumps(registry.get_coder(kind))
        return self._spec.translated(coder, in_columns=False), kind

    def _is_streaming(self, pipeline: beam.Pipeline) -> bool:
        return bool(self._frame.isStreaming)

    def _with_details(self, spec: ReadSpec, **more: Any) -> ReadSpec:
        if self._frame.isStreaming:
            more |= {"by_files": False, "idle": _IDLE_MICROS, "idle_lag": _LAG_MICROS}
        return replace(super()._with_details(spec, **more), options=self.secrets)


class _ReadOnce(beam.PTransform[PBegin, PCollection[Any]]):
    """Rows that are collected while the pipeline is built, as a query has no source that ends."""

    def __init__(self, read: _ReadFrame) -> None:
        super().__init__()
        self._read = read

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        pipeline = pbegin.pipeline
        label = applied_label(pipeline)
        with errors_naming(label):
            spec, kind = self._read.described(pbegin)
            frame = source_frames.timed(resolve.session_of(pipeline), spec, label)
            with spark_cannot("read the table", "", self._read.secrets):
                found = frame.toArrow()
            if found.nbytes > _MOST_BYTES:
                raise ConfigurationError(
                    f"The table has {found.nbytes >> 20} MiB, but a table that a streaming "
                    "pipeline reads once passes through the driver, which accepts up to "
                    f"{_MOST_BYTES >> 20} MiB: read fewer rows or columns, read it in a batch "
                    "pipeline, or look up rows in a DoFn (see docs/lookups.md)."
                )
        parts = pbegin | "Collected" >> beam.Create([*map(_stream, found.to_batches(_ROWS))])
        return parts | "Rows" >> beam.FlatMap(CollectedRows(spec)).with_output_types(kind)


_MOST_BYTES = 1 << 24
_ROWS = 1 << 14


def _stream(batch: pa.RecordBatch) -> bytes:
    """Return rows as a stream of Arrow."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    found: bytes = sink.getvalue().to_pybytes()
    return found

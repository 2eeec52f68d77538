"""Reads of tables of a format that needs a package and settings of the session."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import apache_beam as beam
import pyspark
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.pvalue import PBegin, PCollection

from sparkbeam.common.spark_packages import released, versions_of
from sparkbeam.connectors import resolve
from sparkbeam.connectors.problems import problem
from sparkbeam.errors import ConfigurationError
from sparkbeam.io.dataframe import FromDataFrame
from sparkbeam.io.output_modes import told_by
from sparkbeam.options.spark_options import SparkBeamOptions, settings
from sparkbeam.plan.spark_io import Options, ReadSpec
from sparkbeam.spark.jars import add_jars
from sparkbeam.spark.session import HasSession
from sparkbeam.upstream.spark import has_class, is_classic


@dataclass(frozen=True)
class TableFormat:
    """A format of tables.

    Attributes:
        name: as Spark has it.
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
                ", or give the session one with --spark_packages=GROUP:ARTIFACT:VERSION."
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
        frame: a DataFrame of them.
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
        format: of the table.
        what: the table in messages.
        rows: the rows, if the read ends.
        follow: the rows, if it has no end; None for a read that ends in any pipeline.
        endless: it has no end in any pipeline, otherwise in a streaming one alone.
        options: with secrets.
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
        with told_by(pipeline.transforms_stack[-1].full_label):
            if streaming and self._follow is None:
                raise ConfigurationError(
                    f"{self._what} is read in batch, and the pipeline has --streaming: read it "
                    "with sparkbeam.io.ReadFromSpark, or as a side input: see docs/lookups.md."
                )
            follow = self._follow if streaming or self._endless else None
            session = self._format.session(pipeline)
            most = pipeline.options.view_as(SparkBeamOptions).max_batch_elements
            rows = self._made(lambda: follow(session, most) if follow else self._rows(session))
        return pbegin | "Read" >> ReadFrame(rows.frame, self._options, rows.time, rows.columns)

    def _made(self, make: Callable[[], TableRows]) -> TableRows:
        try:
            rows = make()
            _ = rows.frame.schema
        except ConfigurationError:
            raise
        except Exception as error:
            raise ConfigurationError(
                f"Spark cannot read {self._what}: "
                f"{problem(error, self._format.name, self._options)}"
            ) from None
        return rows


_IDLE_MICROS = 60_000_000
_LAG_MICROS = 300_000_000
"""Lag of the watermark of a table without new rows, as in Beam's reads of changes."""


class ReadFrame(FromDataFrame):
    """Rows of a DataFrame over a source whose options have secrets.

    In streaming the watermark is the newest timestamp of the rows. Without new ones it follows the
    clock.

    Args:
        frame: the DataFrame.
        options: of the source.
        timestamp_column: see :class:`FromDataFrame`.
        columns: likewise.
    """

    def __init__(
        self,
        frame: Any,
        options: Options,
        timestamp_column: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(frame, timestamp_column, columns)
        self._secrets = options

    def _is_streaming(self, pipeline: beam.Pipeline) -> bool:
        return bool(self._frame.isStreaming)

    def _told(self, spec: ReadSpec, **more: Any) -> ReadSpec:
        if self._frame.isStreaming:
            more |= {"by_files": False, "idle": _IDLE_MICROS, "idle_lag": _LAG_MICROS}
        return replace(super()._told(spec, **more), options=self._secrets)

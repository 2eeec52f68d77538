"""Output of a PCollection with Spark, or with the user's code."""

import inspect
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import apache_beam as beam
import cloudpickle
from apache_beam.pvalue import PCollection, PDone
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import GlobalWindows
from pyspark.sql.types import StructType

from sparkbeam.common import arguments
from sparkbeam.common.display_text import shortened
from sparkbeam.common.step_errors import errors_naming
from sparkbeam.connectors import resolve
from sparkbeam.connectors.schemas import arrow_schema, spark_schema, untyped_fields
from sparkbeam.connectors.storage import FILE_FORMATS
from sparkbeam.errors import ConfigurationError
from sparkbeam.io import output_modes
from sparkbeam.plan.spark_io import APPEND, OUTPUT_MODES, WRITE_URN, Options, WriteSpec
from sparkbeam.worker.connectors.sink_cells import (
    PackArrow,
    PackElements,
    PackPickled,
    PackStamped,
    PackTimed,
)

_FOLDER, _MANIFEST = "folder", "manifest"
_MODES = ("append", "overwrite", "ignore", "error", "errorifexists")


class Writer(Protocol):
    """Interface of writers for :class:`Foreach`; ``open`` and ``close`` are optional."""

    def open(self, partition_id: int, epoch_id: int) -> bool:
        """Called before the elements of a partition of a micro-batch.

        A repeated partition has the same two numbers.

        Returns:
            Whether to process its elements.
        """
        return True

    @abstractmethod
    def process(self, row: Any) -> None:
        """Process an element."""

    def close(self, error: Exception | None) -> None:
        """Called at the end, with the error if there was one."""
        return None


class _TakesElements(Protocol):
    """Required method of a writer."""

    def process(self, row: Any, /) -> None: ...


class WriteToSpark(beam.PTransform[PCollection[Any], PDone]):
    """Writes rows, NamedTuples or dictionaries with a Spark data source.

    In batch everything is written once, at the end of the run. In streaming each micro-batch is
    written when it has been processed; if it is repeated, after a failure or a restart, then

    - files (parquet, orc, avro, json, csv, text, xml) of mode ``append`` are written once: they
      are written to a hidden folder and moved, under names that contain the micro-batch. A
      reader of the folder never sees a row twice; :func:`committed_files` returns the files of
      whole micro-batches;
    - tables of such files are written once as well;
    - Delta tables are written once, by their transaction ids, and Iceberg tables that ``table``
      names, by the properties of their snapshots;
    - all others are written again if the failure was between the write and the note of its success.

    With ``output_mode="update"`` the latest row of each key in a micro-batch replaces the row with
    the same key, in a Delta table, an Iceberg table that ``table`` names, a database (``jdbc``) or
    on the ``console``. With ``"complete"``
    each micro-batch with rows writes the latest row of each key since the start of the pipeline,
    replacing the previous output.

    Args:
        format: the name of a data source: ``"parquet"``, ``"jdbc"``, ``"delta"``, …
        options: of the data source, such as ``path``, or of the table.
        schema: of the rows, as Spark's DDL or ``StructType``. By default it is derived from the
            PCollection's type, if that has flat fields. A missing field of a dictionary is null.
            DDL needs a Spark session while the pipeline is built.
        mode: Spark's save mode: ``append``, ``overwrite`` (in streaming each micro-batch replaces
            the previous one), ``ignore`` or ``error``.
        partition_by: the partition columns, for folders such as ``day=2030-01-31``; they are not in
            the files.
        layout: the way in which readers find the files of a stream. ``folder``: all files of the
            folder. ``manifest``: the folder also has a log, ``_spark_metadata``, as written by
            Spark's own streaming sink. Spark's readers only see the files in the log, in batch and
            in streaming, so never a part of a micro-batch.
        output_mode: ``append``, ``update`` or ``complete``.
        key: the columns that identify a row, for the modes ``update`` and ``complete``.
        order_by: the sort columns of each write, ``"count desc"`` for the largest first; for mode
            ``complete`` the key by default.
        table: the name of a table, as in ``saveAsTable``. A missing one is created with ``format``,
            or with Spark's default. An existing one keeps its format and partitions; columns are
            matched by name.

    Raises:
        ConfigurationError: when it is created or applied: a mode, layout or column does not exist,
            the data source lacks the output mode, the schema is missing or wrong, or the pipeline
            has another runner.
        PipelineFailed: from the run, with the label of this transform: the write failed.
    """

    def __init__(
        self,
        format: str | None = None,
        options: dict[str, Any] | None = None,
        schema: resolve.Schema | None = None,
        mode: str = "append",
        partition_by: Sequence[str] = (),
        layout: str = _FOLDER,
        output_mode: str = APPEND,
        key: Sequence[str] = (),
        order_by: Sequence[str] = (),
        *,
        table: str | None = None,
    ) -> None:
        super().__init__()
        if format is None and table is None:
            raise ConfigurationError(
                "WriteToSpark has no destination: give a format, such as 'parquet', "
                "with its options, or table= with the name of a table."
            )
        source = None if format is None else resolve.source_format(format)
        known = resolve.checked_options(options, source)
        name = "" if table is None else resolve.table_name(table)
        if name:
            resolve.refuse_path("WriteToSpark", name, known)
        self._schema = resolve.checked_schema(schema)
        self._spec = WriteSpec(
            source,
            known,
            arguments.one_of("mode", mode, _MODES),
            arguments.names(
                "partition_by", partition_by, "use a list of columns, such as ['day']", least=0
            ),
            arguments.one_of("output_mode", output_mode, OUTPUT_MODES),
            arguments.names("key", key, "use a list of columns, such as ['id']", least=0),
            has_manifest=layout == _MANIFEST,
            table=name,
        )
        self._order_by = arguments.names(
            "order_by", order_by, "use a list of columns, such as ['count desc']", least=0
        )
        arguments.one_of("layout", layout, (_FOLDER, _MANIFEST))
        has_path = any(name.lower() == "path" for name, _ in known)
        is_added = (mode, output_mode) == ("append", APPEND) and has_path
        if self._spec.has_manifest and not (is_added and (format or "").lower() in FILE_FORMATS):
            raise ConfigurationError(
                "layout='manifest' requires a file format, a path in options, mode='append' and "
                "output_mode='append', and does not support table=. File formats: "
                f"{arguments.listed(sorted(FILE_FORMATS))}."
            )

    def default_label(self) -> str:
        return f"WriteToSpark({self._spec.table or self._spec.format})"

    def expand(self, rows: PCollection[Any]) -> PDone:
        resolve.require_spark(rows.pipeline, "WriteToSpark")
        with errors_naming(self.label):
            output_modes.check(self._spec, lambda: resolve.session_of(rows.pipeline))
        schema = _schema(rows, self._schema, "WriteToSpark")
        with errors_naming(self.label):
            for name in self._spec.partition_by:
                output_modes.column("partition_by", schema, name)
            if self._spec.partition_by and not set(schema.names) - set(self._spec.partition_by):
                raise ConfigurationError(
                    "partition_by has all columns of the schema: leave at least one to write."
                )
            spec = output_modes.of_rows(self._spec, schema, self._order_by)
            pack = PackArrow(arrow_schema(schema))
        return rows | _Pack(pack) | _Write(spec)


class ForeachBatch(beam.PTransform[PCollection[Any], PDone]):
    """Calls a function with the rows of each micro-batch as a DataFrame.

    It is called on the driver, for each micro-batch with rows; in batch once, with the number 0. A
    repeated micro-batch has the same number, so that the function can recognize it. The function is
    pickled with the pipeline, like a DoFn.

    Args:
        function: takes the DataFrame and the number of the micro-batch.
        schema: of the rows; see :class:`WriteToSpark`.
        empty_batches: also call it for micro-batches without rows, with an empty DataFrame.

    Raises:
        ConfigurationError: when it is applied: the schema is missing or wrong, or the
            pipeline has another runner.
        PipelineFailed: from the run, with the label of this transform: the function failed.
    """

    def __init__(
        self,
        function: Callable[[Any, int], None],
        schema: resolve.Schema | None = None,
        *,
        empty_batches: bool = False,
    ) -> None:
        super().__init__()
        remedy = "give one that takes a DataFrame and the number of the micro-batch"
        self._function = arguments.function("function", function, remedy)
        try:
            inspect.signature(function).bind(None, 0)
        except TypeError:
            raise ConfigurationError(
                f"function={arguments.shown(function)} cannot be called with two arguments: "
                f"{remedy}."
            ) from None
        except ValueError:  # Not all C functions have a signature.
            pass
        self._schema = resolve.checked_schema(schema)
        self._empty_batches = arguments.flag("empty_batches", empty_batches)

    def expand(self, rows: PCollection[Any]) -> PDone:
        resolve.require_spark(rows.pipeline, "ForeachBatch")
        schema = _schema(rows, self._schema, "ForeachBatch")
        spec = WriteSpec(
            schema=schema.json(),
            function=_pickled("function", self._function),
            empty_batches=self._empty_batches,
        )
        with errors_naming(self.label):
            pack = PackArrow(arrow_schema(schema))
        return rows | _Pack(pack) | _Write(spec)


class Foreach(beam.PTransform[PCollection[Any], PDone]):
    """Passes each element to a writer, in the tasks of the micro-batch.

    Each partition of a micro-batch has its own copy of the writer. In batch the epoch is 0.

    Args:
        writer: has the methods of :class:`Writer`. It is pickled with the pipeline, so it should
            open connections in ``open``.

    Raises:
        ConfigurationError: when it is created or applied: it has no ``process``, or the pipeline
            has another runner.
        PipelineFailed: from the run, with the label of this transform: the writer failed.
    """

    def __init__(self, writer: _TakesElements) -> None:
        super().__init__()
        kind = writer.__name__ if isinstance(writer, type) else type(writer).__name__
        if not callable(getattr(writer, "process", None)):
            raise ConfigurationError(
                f"writer={arguments.shown(writer)}: {kind} has no method process(row)."
            )
        if isinstance(writer, type):
            raise ConfigurationError(f"writer={kind} is a class: give an object, {kind}(…).")
        for name in ("open", "close"):
            if not callable(getattr(writer, name, len)):
                raise ConfigurationError(f"{kind}.{name} is not a method: make it one, or omit it.")
        self._writer = writer

    def expand(self, elements: PCollection[Any]) -> PDone:
        resolve.require_spark(elements.pipeline, "Foreach")
        return to_writer(elements, self._writer)


def to_writer(
    elements: PCollection[Any], writer: Any, options: Options = (), *, in_one_task: bool = False
) -> PDone:
    """Pass elements to a writer, in the tasks.

    Args:
        writer: see :class:`Foreach`.
        options: of the writer, to recognize secrets.
        in_one_task: one writer takes all elements of a micro-batch.

    Raises:
        ConfigurationError: the writer cannot be pickled.
    """
    spec = WriteSpec(writer=_pickled("writer", writer), options=options, in_one_task=in_one_task)
    return elements | _Pack(PackPickled()) | _Write(spec)


def to_function(
    rows: PCollection[Any],
    schema: StructType,
    function: Callable[[Any, int], None],
    format: str,
    options: Options,
) -> PDone:
    """Write rows with a function of our own on the driver.

    Args:
        rows: rows or dictionaries.
        function: takes a DataFrame and the number of the micro-batch.
        format: the data source that it writes to, for messages.
        options: of the data source, to recognize secrets.
    """
    pickled = _pickled("function", function)
    spec = WriteSpec(format, options, schema=schema.json(), function=pickled)
    return rows | _Pack(PackArrow(arrow_schema(schema))) | _Write(spec)


def to_dataframe(
    elements: PCollection[Any], schema: StructType, *, whole: bool, timed: bool
) -> PDone:
    """Pass elements to a DataFrame of the pipeline.

    Args:
        whole: an element is the value of the first column, not a row.
        timed: the last column has the timestamps.
    """
    pack = (PackTimed if timed else PackArrow)(arrow_schema(schema), whole=whole)
    return elements | _Pack(pack) | _Write(WriteSpec(schema=schema.json()))


def to_table(elements: PCollection[Any], schema: StructType) -> PCollection[Any]:
    """Return elements as cells of a table of a query.

    Args:
        schema: of the table, whose last column has the timestamps.
    """
    return elements | _Pack(PackStamped(arrow_schema(schema)))


def _pickled(name: str, value: object) -> bytes:
    try:
        return bytes(cloudpickle.dumps(value))
    except Exception as error:
        raise ConfigurationError(
            f"{name}={arguments.shown(value)} cannot be pickled "
            f"({shortened(f'{type(error).__name__}: {error}', 120)}): create objects "
            "that cannot be pickled, such as a connection, when it is called."
        ) from error


def _schema(rows: PCollection[Any], given: resolve.Schema | None, name: str) -> StructType:
    if given is not None:
        return resolve.parsed(given, rows.pipeline)
    found = spark_schema(rows.element_type)
    if found is None:
        raise ConfigurationError(
            f"{name} cannot derive a schema from the type "
            f"{shortened(str(rows.element_type), 100)}{untyped_fields(rows.element_type)}: "
            "give schema=…"
        )
    return found


class _Pack(beam.ParDo):
    """Packing of elements into cells of many, in the global window."""

    def __init__(self, pack: PackElements) -> None:
        super().__init__(pack)
        self.with_output_types(bytes)

    def default_label(self) -> str:
        return "Pack"

    def get_windowing(self, inputs: Any) -> Windowing:
        return Windowing(GlobalWindows())


class _Write(beam.PTransform[PCollection[Any], PDone]):
    """End of the pipeline, written by Spark."""

    def __init__(self, spec: WriteSpec) -> None:
        super().__init__("Write")
        self._spec = spec

    def expand(self, cells: PCollection[Any]) -> PDone:
        return PDone(cells.pipeline)

    def to_runner_api_parameter(self, unused_context: Any) -> tuple[str, bytes]:
        return WRITE_URN, self._spec.pack()

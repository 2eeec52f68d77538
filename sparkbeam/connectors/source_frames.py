"""DataFrames of Spark's sources, in batch and streaming."""

import itertools
import json
from collections.abc import Iterable
from typing import Any
from weakref import WeakValueDictionary

from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from sparkbeam.connectors.committed_files import listed_files
from sparkbeam.connectors.hook_errors import hook_errors
from sparkbeam.connectors.latest import quoted
from sparkbeam.connectors.problems import problem
from sparkbeam.connectors.schemas import METADATA, field_at
from sparkbeam.connectors.storage import FILE_FORMATS, from_here
from sparkbeam.errors import ConfigurationError, PipelineFailed
from sparkbeam.plan.spark_io import PARTITION_SEPARATOR, ReadSpec
from sparkbeam.spark.capabilities import is_remote
from sparkbeam.upstream.spark import unlogged
from sparkbeam.wire.timestamps import MIN_MICROS

_TIME = "sparkbeam_time"
_PARTITION = "sparkbeam_partition"
_FILE = f"{METADATA.name}.file_path"
_PATHS = frozenset(["path", "sourcearchivedir"])
_GENERATED = frozenset(["rate", "rate-micro-batch"])

_STREAM = "is a stream, but the pipeline is not: run it with --streaming."
_NO_STREAM = (
    "is for batch pipelines, but this pipeline has --streaming or contains a stream: create the "
    "source with spark.readStream, in SQL with STREAM(table) or a view of a stream, or leave out "
    "--streaming. Data that a stream only looks up can be a side input, or Spark can join it to "
    "the stream."
)

_given: WeakValueDictionary[str, Any] = WeakValueDictionary()
_numbers = itertools.count()


class _Name(str):
    """Name of a DataFrame that keeps the DataFrame alive."""

    __slots__ = ("frame",)
    frame: Any

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def give(frame: Any) -> str:
    """Register a DataFrame under a name; it is released with the name."""
    name = _Name(next(_numbers))
    name.frame = frame
    _given[str(name)] = frame
    return name


def registered_frames(specs: Iterable[ReadSpec]) -> list[Any]:
    """Return the registered DataFrames of sources, for a run to keep alive."""
    return [_given[spec.frame] for spec in specs if spec.frame]


def loaded(session: Any, spec: ReadSpec, *, streaming: bool, partitions: int | None = None) -> Any:
    """Return the source with all its columns.

    Raises:
        ConfigurationError: a stream in a batch pipeline, or the reverse.
    """
    found = _loaded(session, spec, streaming=streaming, partitions=partitions)
    if not spec.format and found.isStreaming != streaming:
        raise ConfigurationError(f"{spec.what} {_NO_STREAM if streaming else _STREAM}")
    return found


def _loaded(session: Any, spec: ReadSpec, *, streaming: bool, partitions: int | None) -> Any:
    if spec.frame:
        # A DataFrame caches its schema once asked, and this one is the user's.
        return _given[spec.frame].select("*")
    if spec.query:
        # In parentheses it cannot be a command, which Spark would execute immediately.
        return session.sql(f"SELECT * FROM (\n{spec.query}\n)")
    spec.hooks.register(session)
    reader = session.readStream if streaming else session.read
    if spec.format:
        reader = reader.format(spec.format)
    if partitions is not None and spec.format in _GENERATED:
        # A repeated micro-batch needs the same partitions, even if the cluster has another number
        # of cores by then.
        reader = reader.option("numPartitions", partitions)
    path, listed = from_here(spec.option("path"), spec.format, session), None
    if path and not streaming and spec.format.lower() in FILE_FORMATS and not is_remote(session):
        listed = listed_files(path)  # If a list identifies the committed ones.
    if listed:
        reader = reader.option("basePath", path)
    for name, value in spec.options:
        place = from_here(value, spec.format, session) if name.lower() in _PATHS else value
        if name.lower() != "path" or not listed:
            reader = reader.option(name, place)
    if spec.schema is not None:
        reader = reader.schema(StructType.fromJson(json.loads(spec.schema)))
    if spec.table:
        return reader.table(spec.table)
    if listed is None:
        return reader.load()
    return reader.load(listed) if listed else reader.load().where("false")


def file_metadata(frame: Any) -> StructField | None:
    """Return the column with the file of each row, or None."""
    try:
        with unlogged():
            found: StructField = frame.select(METADATA.name).schema[0]
    except PySparkException:
        return None
    return found if field_at(StructType([found]), _FILE) else None


def started(spec: ReadSpec, label: str) -> ReadSpec:
    """Return a specification that tells Spark where the source starts.

    Raises:
        ConfigurationError: the source cannot be asked with the given configuration.
        PipelineFailed: it does not answer.
    """
    with hook_errors(spec, label):
        return spec.with_options(spec.hooks.starting_options())


def timed(session: Any, spec: ReadSpec, label: str, partitions: int | None = None) -> Any:
    """Return the required columns, followed by the timestamp of each row in microseconds.

    In streaming the partition of each row follows, if the source has any.

    Args:
        partitions: of a stream whose source does not define it; None in batch.

    Raises:
        PipelineFailed: Spark cannot read the source.
    """
    streaming = partitions is not None
    if not streaming:
        spec = started(spec, label)
    columns = [_column(spec, name) for name in spec.read]
    columns.append(_time(spec, streaming=streaming).alias(_TIME))
    if streaming and spec.is_partitioned:
        columns.append(_partition(spec).alias(_PARTITION))
    try:
        frame = loaded(session, spec, streaming=streaming, partitions=partitions)
        return frame.select(*columns)
    except ConfigurationError as error:
        raise ConfigurationError(f"'{label}': {error}") from None
    except Exception as error:
        # Spark's own text may contain options.
        raise PipelineFailed(
            f"Step '{label}' failed: Spark cannot read {spec.what}: "
            f"{problem(error, spec.format, spec.options)}",
            label,
        ) from None


def _partition(spec: ReadSpec) -> Any:
    if spec.by_files:
        # A path in each row would cost more than most rows.
        return sf.xxhash64(sf.col(_FILE))
    parts = [
        sf.coalesce(_column(spec, name).cast("string"), sf.lit(""))
        for name in spec.partition_columns
    ]
    return sf.concat_ws(PARTITION_SEPARATOR, *parts)


def _time(spec: ReadSpec, *, streaming: bool) -> Any:
    if spec.timestamp_column is not None:
        return sf.unix_micros(_column(spec, spec.timestamp_column).cast("timestamp"))
    if streaming:
        # Spark logs the time of a micro-batch, so it is the same in a repetition.
        return sf.unix_micros(sf.current_timestamp())
    return sf.lit(MIN_MICROS)


def _column(spec: ReadSpec, name: str) -> Any:
    expression = dict(spec.derived).get(name)
    if expression is not None:
        return sf.expr(expression).alias(name)
    parts = name.split(".") if name in spec.nested else [name]
    return sf.col(".".join(map(quoted, parts)))

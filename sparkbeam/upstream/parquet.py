"""Assumptions about Beam's Parquet IO; see :mod:`sparkbeam.upstream.beam`."""

import copy
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pyarrow as pa
from apache_beam.io import iobase, parquetio
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms import core
from apache_beam.transforms.window import BoundedWindow
from apache_beam.typehints import row_type

from sparkbeam.common.placeholders import filling
from sparkbeam.upstream.beam_files import Volume

TABLES_TO_DICTS: type[core.DoFn] = parquetio._ArrowTableToRowDictionaries
"""DoFn that makes a dict of each row of an Arrow table."""


def row_type_of_tables(fn: Any) -> Any:
    """Return the Row class of a DoFn that converts the rows of Arrow tables; None for others."""
    if type(fn) is not parquetio._ArrowTableToBeamRows:
        return None
    element_type = row_type.RowTypeConstraint.from_user_type(fn._beam_type) or fn._beam_type
    return getattr(element_type, "user_type", None)


def parquet_schema(source: iobase.BoundedSource) -> pa.Schema | None:
    """Return the schema that a source reads of its first Parquet file; None if unknown."""
    if isinstance(source, ProjectedSource):
        return source.schema
    if not isinstance(source, parquetio._ParquetSource) or not source._pattern.is_accessible():
        return None
    try:
        (found,) = FileSystems.match([source._pattern.get()], [1])
        with FileSystems.open(found.metadata_list[0].path) as file:
            schema = parquetio.pq.read_schema(file)
    except Exception:  # Workers find it too, and tell it with the label of the step.
        return None
    return _chosen(schema, source._columns)


def _chosen(schema: pa.Schema, names: list[str] | None) -> pa.Schema:
    """Return the selected columns, without those of which only fields of structs are selected."""
    return schema if names is None else pa.schema([f for f in schema if f.name in names])


def whole_source(source: iobase.BoundedSource | None) -> "RowGroupSource | None":
    """Return a source that reads the same Parquet files in better parts; None for other sources."""
    return RowGroupSource(source) if type(source) is parquetio._ParquetSource else None


def projected_source(
    source: iobase.BoundedSource, schema: pa.Schema | None, needed: frozenset[str]
) -> "ProjectedSource | None":
    """Return a source that reads only some columns of Parquet files; None for other sources.

    Args:
        source: reads all columns, or a given selection.
        schema: the result of :func:`parquet_schema` for it.
        needed: the names of the columns to read.
    """
    if schema is None or len(needed) >= len(schema) or any("." in name for name in schema.names):
        return None
    assert isinstance(source, parquetio._ParquetSource)
    if source._columns is not None and set(source._columns) != set(schema.names):
        return None
    return ProjectedSource(source, schema, needed)


class RowGroupSource(parquetio._ParquetSource):
    """Source of Parquet files in parts that contain row groups; Beam's parts may be empty.

    Beam splits a file by bytes, and a row group belongs to the part in which it begins. A file of
    one row group, as Spark writes them, has one full part and several empty ones, always assigned
    to the same tasks.

    Attributes:
        volume: the size of the files, if all of them have been inspected.
    """

    def __init__(self, source: parquetio._ParquetSource) -> None:
        super().__init__(source._pattern, source._min_bundle_size, columns=source._columns)
        self.volume: Volume | None = None

    def split(
        self,
        desired_bundle_size: int | None = None,
        start_position: int | None = None,
        stop_position: int | None = None,
    ) -> Iterator[iobase.SourceBundle]:
        parts = list(super().split(desired_bundle_size, start_position, stop_position))
        counts = Counter(part.source._file_name for part in parts)
        # Inspecting a few files is worthwhile.
        looked_at = [name for name, count in counts.items() if count > 1 or len(counts) <= _AT_ONCE]
        if not looked_at or len(looked_at) > _MOST_FOOTERS:
            yield from parts
            return
        with ThreadPoolExecutor(min(_AT_ONCE, len(looked_at))) as pool:
            groups = dict(zip(looked_at, pool.map(self._row_groups, looked_at), strict=True))
        self.volume = _volume([groups.get(name) for name in counts])
        for part in parts:
            if _has_rows(part, groups.get(part.source._file_name)):
                yield part

    def _row_groups(self, name: str) -> "list[_RowGroup] | None":
        """Return the row groups of a file; None if it cannot be read."""
        begin = parquetio._ParquetUtils.get_offset
        try:
            with self.open_file(name) as opened:
                file = parquetio.pq.ParquetFile(opened)
                found = map(file.metadata.row_group, range(file.num_row_groups))
                return [_RowGroup(begin(file, at), group) for at, group in enumerate(found)]
        except (BeamIOError, OSError, pa.ArrowException):
            return None


_MOST_FOOTERS, _AT_ONCE = 1000, 16
"""Maximum number of files whose row groups are read, in total and concurrently."""


class _RowGroup(NamedTuple):
    begin: int
    metadata: Any


def _has_rows(part: iobase.SourceBundle, groups: list[_RowGroup] | None) -> bool:
    """Return whether row groups begin in a part of a file; True if unknown."""
    if groups is None:
        return True
    return any(part.start_position <= group.begin < part.stop_position for group in groups)


def _volume(files: list[list[_RowGroup] | None]) -> Volume | None:
    """Return the size of files; None if one of them is unknown."""
    rows, sizes = 0, Counter[str]()
    for groups in files:
        if groups is None:
            return None
        for _, group in groups:
            rows += group.num_rows
            for column in map(group.column, range(group.num_columns)):
                sizes[column.path_in_schema.partition(".")[0]] += column.total_uncompressed_size
    return Volume(rows, sizes)


class ProjectedSource(RowGroupSource):
    """Source of some columns of Parquet files, with placeholders for the other columns.

    Files whose columns differ from those of the first file are read in full.

    Args:
        source: reads all columns.
        schema: the schema of the first file.
        needed: the names of the columns to read.

    Attributes:
        schema, needed: the same.
    """

    def __init__(
        self, source: parquetio._ParquetSource, schema: pa.Schema, needed: frozenset[str]
    ) -> None:
        super().__init__(source)
        self.schema = schema
        self.needed = [name for name in schema.names if name in needed] or schema.names[:1]

    def read_records(self, file_name: str, range_tracker: Any) -> Iterator[pa.Table]:
        with self.open_file(file_name) as file:
            schema = _chosen(parquetio.pq.read_schema(file), self._columns)
        if not schema.equals(self.schema):
            yield from super().read_records(file_name, range_tracker)
            return
        fewer = copy.copy(self)
        fewer._columns = self.needed
        for table in super(ProjectedSource, fewer).read_records(file_name, range_tracker):
            yield _filled(table, schema)


def _filled(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with all columns of a schema; missing ones get placeholder values."""
    there = set(table.column_names)
    columns = [
        table[field.name] if field.name in there else filling(field.type, len(table))
        for field in schema
    ]
    return pa.table(columns, schema=schema)


class RowGroups:
    """The rows gathered by Beam's ``WriteToParquet`` in a bundle, for the row groups of its files.

    Args:
        fn: the DoFn that gathers dicts and emits tables.

    Attributes:
        schema: the schema of the tables.
        batch_rows: the number of dicts per record batch, whose bytes determine the size of row
            groups.
    """

    def __init__(self, fn: Any) -> None:
        self._fn = fn
        self.schema: pa.Schema = fn._schema
        self.batch_rows = max(1, fn._buffer_size)

    def add(self, batch: pa.RecordBatch, window: BoundedWindow) -> None:
        """Append a record batch.

        Args:
            batch: a batch with the columns of the schema.
            window: the window of its rows.
        """
        fn = self._fn
        if fn._buffer[0]:
            fn._flush_buffer()
        fn._window = window
        fn._record_batches.append(batch)
        fn._record_batches_byte_size += batch.nbytes

    def full(self) -> pa.Table | None:
        """Remove and return the next row group, if there are enough rows."""
        fn = self._fn
        if fn._record_batches_byte_size < fn._row_group_buffer_size:
            return None
        table: pa.Table = fn._create_table()
        return table


def row_groups_of(fn: Any) -> RowGroups | None:
    """Return the row groups of the DoFn that makes tables of dicts; None for other DoFns."""
    return RowGroups(fn) if type(fn) is parquetio._RowDictionariesToArrowTable else None

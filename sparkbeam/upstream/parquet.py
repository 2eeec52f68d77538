"""Assumptions about Beam's Parquet IO; see :mod:`sparkbeam.upstream.beam`."""

import copy
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io import iobase, parquetio
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms import core
from apache_beam.transforms.window import BoundedWindow
from apache_beam.typehints import row_type

from sparkbeam.common.parquet_footers import FOOTERS_AT_ONCE, MOST_FOOTERS, Footers, in_threads
from sparkbeam.common.placeholders import filling

TABLES_TO_DICTS: type[core.DoFn] = parquetio._ArrowTableToRowDictionaries
"""DoFn that makes a dict of each row of an Arrow table."""


def row_type_of_tables(fn: Any) -> Any:
    """Return the Row class of a DoFn that converts the rows of Arrow tables; None for others."""
    if type(fn) is not parquetio._ArrowTableToBeamRows:
        return None
    element_type = row_type.RowTypeConstraint.from_user_type(fn._beam_type) or fn._beam_type
    return getattr(element_type, "user_type", None)


def parquet_schema(
    source: iobase.BoundedSource | None, footers: Footers | None = None
) -> pa.Schema | None:
    """Return the schema that a source reads of its first Parquet file; None if unknown.

    Args:
        footers: those of its files, if they have been inspected.
    """
    if isinstance(source, RowGroupSource) and source.schema is not None:
        return source.schema
    if not isinstance(source, parquetio._ParquetSource) or not source._pattern.is_accessible():
        return None
    if footers is not None:
        return _chosen(footers.schema, source._columns)
    try:
        (found,) = FileSystems.match([source._pattern.get()], [1])
        with FileSystems.open(found.metadata_list[0].path) as file:
            schema = pq.read_schema(file)
    except Exception:  # Workers find it too, and tell it with the label of the step.
        return None
    return _chosen(schema, source._columns)


def _chosen(schema: pa.Schema, names: list[str] | None) -> pa.Schema:
    """Return the selected columns, without those of which only fields of structs are selected."""
    return schema if names is None else pa.schema([f for f in schema if f.name in names])


def row_group_source(source: iobase.BoundedSource | None) -> "RowGroupSource | None":
    """Return a source that reads the same Parquet files in better parts; None for other sources."""
    return RowGroupSource(source) if type(source) is parquetio._ParquetSource else None


class RowGroupSource(parquetio._ParquetSource):
    """Source of Parquet files in parts that contain row groups; Beam's parts may be empty.

    Beam splits a file by bytes, and a row group belongs to the part in which it begins. A file of
    one row group, as Spark writes them, has one full part and several empty ones, always assigned
    to the same tasks.

    Attributes:
        footers: those of the files, if all of them have been inspected.
        schema: the schema of the first file, if only some columns are read.
        needed: the names of these columns; the others are placeholders. Files whose columns differ
            from those of the first file are read in full. None for all.
    """

    def __init__(self, source: parquetio._ParquetSource) -> None:
        super().__init__(source._pattern, source._min_bundle_size, columns=source._columns)
        self.footers: Footers | None = None
        self.schema: pa.Schema | None = None
        self.needed: list[str] | None = None

    def reading(self, needed: frozenset[str], schema: pa.Schema | None) -> "RowGroupSource | None":
        """Return a source that reads only some columns; None if all of them must be read.

        Args:
            needed: the names of the columns to read.
            schema: the result of :func:`parquet_schema` for this source.
        """
        if schema is None or len(needed) >= len(schema) or any("." in n for n in schema.names):
            return None
        if self._columns is not None and set(self._columns) != set(schema.names):
            return None
        other = RowGroupSource(self)
        other.schema = schema
        other.needed = [name for name in schema.names if name in needed] or schema.names[:1]
        return other

    def split(
        self,
        desired_bundle_size: int | None = None,
        start_position: int | None = None,
        stop_position: int | None = None,
    ) -> Iterator[iobase.SourceBundle]:
        parts = list(super().split(desired_bundle_size, start_position, stop_position))
        counts = Counter(part.source._file_name for part in parts)
        # Inspecting a few files is worthwhile.
        is_few = len(counts) <= FOOTERS_AT_ONCE
        inspected = [name for name, count in counts.items() if count > 1 or is_few]
        if not inspected or len(inspected) > MOST_FOOTERS:
            yield from parts
            return
        found = zip(inspected, in_threads(self._inspect, inspected), strict=True)
        known = {name: file for name, file in found if file is not None}
        if len(known) == len(counts):
            self.footers = Footers.of(list(known.values()))
        begin = parquetio._ParquetUtils.get_offset
        begins = {
            name: [begin(file, at) for at in range(file.num_row_groups)]
            for name, file in known.items()
        }
        for part in parts:
            at = begins.get(part.source._file_name)  # Unknown for a file that is not inspected.
            start, stop = part.start_position, part.stop_position
            if at is None or any(start <= begin < stop for begin in at):
                yield part

    def _inspect(self, name: str) -> pq.ParquetFile | None:
        """Return a file with its footer; None if it cannot be read."""
        try:
            with self.open_file(name) as opened:
                return pq.ParquetFile(opened)
        except (BeamIOError, OSError, pa.ArrowException):
            return None

    def read_records(self, file_name: str, range_tracker: Any) -> Iterator[pa.Table]:
        if self.needed is None:
            yield from super().read_records(file_name, range_tracker)
            return
        with self.open_file(file_name) as file:
            schema = _chosen(pq.read_schema(file), self._columns)
        if not schema.equals(self.schema):
            yield from super().read_records(file_name, range_tracker)
            return
        fewer = copy.copy(self)
        fewer._columns, fewer.needed = self.needed, None
        for table in fewer.read_records(file_name, range_tracker):
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

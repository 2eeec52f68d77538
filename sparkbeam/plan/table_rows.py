"""Steps that make elements of the rows of Arrow tables: Beam's reading of Parquet, and ours."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from sparkbeam.columns import RecordShape, Shape, UnknownShape, shape_of
from sparkbeam.columns.python_types import shape_in_arrow
from sparkbeam.columns.python_values import values_of
from sparkbeam.columns.vectors import Micros, as_counted
from sparkbeam.columns.view_types import plain_schema
from sparkbeam.plan.memo import memoized
from sparkbeam.plan.pardo_functions import dofn_in
from sparkbeam.upstream.beam_files import source_of_read
from sparkbeam.upstream.parquet import parquet_schema, row_type_of_tables

Batch: TypeAlias = pa.RecordBatch | pa.Table


@dataclass(frozen=True)
class RowsOfTables:
    """Elements that a step makes of tables with the same columns.

    Attributes:
        shape: the shape of the elements.
        timestamp_column: the column with their timestamps; None if they keep that of the table.
        of_one_column: they are the values of the one other column, and not records of all.
    """

    shape: Shape
    timestamp_column: str | None = None
    of_one_column: bool = False

    def elements(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the elements of a batch."""
        if self.timestamp_column is not None:
            batch = batch.select([n for n in batch.schema.names if n != self.timestamp_column])
        return as_counted(batch.column(0) if self.of_one_column else batch.to_struct_array())

    def times(self, batch: pa.RecordBatch) -> Micros | None:
        """Return the timestamps of elements in microseconds; None if they keep that of the batch.

        Raises:
            ValueError: one of them is null.
        """
        if self.timestamp_column is None:
            return None
        times = batch.column(self.timestamp_column)
        if times.null_count:
            raise ValueError(f"the timestamp column '{self.timestamp_column}' has a null")
        if pa.types.is_timestamp(times.type):
            times = pc.cast(times, pa.timestamp("us", times.type.tz), safe=False)
        micros = times.cast(pa.int64())
        # Towards zero, as Beam's coders do.
        return np.asarray(pc.multiply(pc.divide(micros, 1000), 1000))


class ElementsOfBatches(beam.DoFn):
    """DoFn that makes elements of the rows of record batches.

    Args:
        kind: what the rows are: a NamedTuple class that has the columns as its fields, or
            ``beam.Row``. A tuple of NamedTuple classes where the one column is a dense union,
            which has a child for each of them.
        timestamp_column: the column with the timestamps, which is no field then: timestamps, or
            integers that count microseconds. None if there is none.
        schema: the schema of the batches; None if only they tell.

    Attributes:
        schema: the same.
    """

    def __init__(
        self, kind: Any, timestamp_column: str | None, schema: pa.Schema | None = None
    ) -> None:
        super().__init__()
        self._kind = kind
        self._timestamp_column = timestamp_column
        self.schema = schema

    def rows(self, schema: pa.Schema) -> RowsOfTables:
        """Return a description of the elements that it makes of the rows of batches.

        Raises:
            UnknownShape: the columns do not fit.
        """
        names = [name for name in schema.names if name != self._timestamp_column]
        if self._timestamp_column is not None and len(names) + 1 != len(schema.names):
            raise UnknownShape(f"the timestamp column '{self._timestamp_column}' is missing")
        if isinstance(self._kind, tuple):
            if len(names) != 1:
                raise UnknownShape(f"elements of several types need one column, not {len(names)}")
            shape = shape_of(schema.field(names[0]).type, self._kind)
            return RowsOfTables(shape, self._timestamp_column, of_one_column=True)
        fields = getattr(self._kind, "_fields", tuple(names))
        if fields != tuple(names):
            raise UnknownShape(
                f"{self._kind.__name__} has the fields {', '.join(fields)}, and the batch has "
                f"the columns {', '.join(names)}"
            )
        shape = shape_of(pa.struct([schema.field(name) for name in names]), self._kind)
        return RowsOfTables(shape, self._timestamp_column)

    def process(self, batch: Batch) -> Iterator[Any]:
        """Give the elements one by one."""
        rows = self.rows(batch.schema)
        for part in batch.to_batches() if isinstance(batch, pa.Table) else (batch,):
            values, times = values_of(rows.elements(part), rows.shape), rows.times(part)
            if times is None:
                yield from values
                continue
            for value, micros in zip(values, times.tolist(), strict=True):
                yield TimestampedValue(value, Timestamp(micros=micros))


def rows_of_tables(fn: Any, schema: pa.Schema) -> RowsOfTables:
    """Return a description of the elements that a DoFn makes of the rows of a table.

    The batches of the table are passed through :func:`.plain`.

    Args:
        fn: the DoFn, which makes elements of rows.
        schema: the schema of the table.

    Raises:
        UnknownShape: only the DoFn itself can tell.
    """
    schema = plain_schema(schema)
    if isinstance(fn, ElementsOfBatches):
        return fn.rows(schema)
    row_type = row_type_of_tables(fn)
    shape = shape_in_arrow(pa.struct(list(schema)))
    assert isinstance(shape, RecordShape)
    if row_type is None:
        return RowsOfTables(shape)
    if shape.names != row_type._fields:
        raise UnknownShape("the columns of the table differ from its schema")
    return RowsOfTables(RecordShape(row_type, shape.names, shape.fields))


@memoized
def schema_read(payload: bytes) -> pa.Schema | None:
    """Return the columns of the Parquet files of which a step puts out a source, or None.

    Args:
        payload: the payload of the step, a ParDo.
    """
    source = source_of_read(dofn_in(payload))
    return None if source is None else parquet_schema(source)

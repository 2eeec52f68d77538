"""Elements of the rows of Arrow tables, as in Beam's reading of Parquet."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Self

import apache_beam as beam
import pyarrow as pa
from apache_beam.runners.worker import operations
from apache_beam.utils import windowed_value
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.columns import RecordShape, Shape, UnknownShape
from sparkbeam.columns.python_types import shape_in_arrow
from sparkbeam.columns.view_types import plain, plain_schema
from sparkbeam.operators.batches import passes_batches
from sparkbeam.plan.arrow_batches import (
    Batch,
    ElementsOfBatches,
    RowsOfTables,
    emitting_step,
    record_batches,
    schema_read,
)
from sparkbeam.plan.model import Plan
from sparkbeam.plan.operator import Operator
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.upstream.parquet import TABLES_TO_DICTS, row_type_of_tables
from sparkbeam.wire.failure import UserCodeFailed
from sparkbeam.worker.blocks import Block, column_rows
from sparkbeam.worker.steps.block_operation import BlockOperation
from sparkbeam.worker.steps.step import Step
from sparkbeam.worker.value_columns import column_of


class TableRows(Operator):
    """Rows of Arrow tables."""

    reads_tables = True

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        fn = step.tabular
        is_known = type(fn) in (ElementsOfBatches, TABLES_TO_DICTS)
        return cls(step.label) if is_known or row_type_of_tables(fn) is not None else None

    def created_type(self, plan: Plan, step: PlannedStep) -> Shape | None:
        fn = step.dofn
        if isinstance(fn, ElementsOfBatches):
            schema = fn.schema
        else:
            # The columns of the first file; None if there is no file yet or it cannot be read.
            reading = emitting_step(plan, step.label.rpartition("/")[0] + "/Read")
            schema = None if reading is None else schema_read(reading.spec.payload)
        with suppress(UnknownShape):
            return None if schema is None else _rows_of_tables(fn, schema).shape
        return None

    def run(self, step: Step) -> operations.Operation:
        operation = step.block_operation(TableRowsOperation)
        operation.fn = step.dofn.fn
        return operation


def _rows_of_tables(fn: Any, schema: pa.Schema) -> RowsOfTables:
    """Return a description of the elements that a DoFn makes of the rows of a table.

    The batches of the table are passed through :func:`.plain`.

    Args:
        fn: the DoFn, which makes elements of rows.

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


class TableRowsOperation(BlockOperation):
    """Reader of the rows of tables as blocks that are columns.

    Attributes:
        fn: the DoFn that makes elements of a table.
    """

    takes_assigned = False
    fn: beam.DoFn

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._passes = passes_batches(self.get_output_batch_converter(), self.readers)
        self._rows: dict[pa.Schema, RowsOfTables | None] = {}

    def process(self, o: WindowedValue) -> None:
        """Emit the elements of a table; as Beam does if they form no column, or batches."""
        table = o.value
        is_column = isinstance(table, Batch) and not self._passes
        rows = self._rows_of(table.schema) if is_column else None
        if rows is None:
            super().process(o)
            return
        with self.scoped_process_state:
            for batch in _parts(table):
                try:
                    block = _block(o, rows, plain(batch))
                except (ValueError, pa.ArrowException) as error:
                    raise UserCodeFailed(self.name_context.step_name) from error
                self._emitter.block(block)

    def _rows_of(self, schema: pa.Schema) -> RowsOfTables | None:
        if schema not in self._rows:
            try:
                self._rows[schema] = _rows_of_tables(self.fn, schema)
            except UnknownShape:
                self._rows[schema] = None
        return self._rows[schema]


def _block(table: WindowedValue, rows: RowsOfTables, batch: pa.RecordBatch) -> Block:
    column, times = column_of(rows.elements(batch), rows.shape), rows.times(batch)
    if times is None:
        return Block(table.with_value(None), column)
    least = int(times.min())
    template = windowed_value.create(None, least, table.windows, table.pane_info)
    return Block(template, column, None if least == times.max() else times)


def _parts(table: Batch) -> Iterator[pa.RecordBatch]:
    """Yield batches of at most as many rows as a block may have."""
    size = column_rows(table.num_rows, table.nbytes)
    for start in range(0, table.num_rows, size):
        yield from record_batches(table.slice(start, size))

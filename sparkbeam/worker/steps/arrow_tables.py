"""Operations that make elements of the rows of Arrow tables, such as Beam's reading of Parquet."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.runners.worker import operations
from apache_beam.utils import windowed_value
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.columns import UnknownShape
from sparkbeam.columns.view_types import plain
from sparkbeam.plan.table_rows import Batch, TableRows, rows_of_tables
from sparkbeam.wire.failure import UserCodeFailed
from sparkbeam.worker.blocks import Block, column_rows
from sparkbeam.worker.emitter import Emitter
from sparkbeam.worker.steps.batch_processing import passes_batches
from sparkbeam.worker.steps.step import Step
from sparkbeam.worker.value_columns import column_of


class TableRowsOperation(operations.DoOperation):
    """Reader of the rows of tables as blocks that are columns.

    Attributes:
        fn: the DoFn that makes elements of a table.
        readers: the operations that take them.
    """

    fn: beam.DoFn
    readers: list[operations.Operation]

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._emitter = Emitter(self.readers, self.receivers[0])
        self._passes = passes_batches(self.get_output_batch_converter(), self.readers)
        self._rows: dict[pa.Schema, TableRows | None] = {}

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

    def _rows_of(self, schema: pa.Schema) -> TableRows | None:
        if schema not in self._rows:
            try:
                self._rows[schema] = rows_of_tables(self.fn, schema)
            except UnknownShape:
                self._rows[schema] = None
        return self._rows[schema]


def _block(table: WindowedValue, rows: TableRows, batch: pa.RecordBatch) -> Block:
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
        part = table.slice(start, size)
        yield from part.to_batches() if isinstance(part, pa.Table) else (part,)


def make_table_rows(step: Step) -> operations.DoOperation:
    """Make the operation that makes elements of the rows of Arrow tables."""
    windowing = step.windowing(step.input)
    operation = step.block_operation(TableRowsOperation, step.dofn, windowing.windowfn)
    operation.fn = step.dofn.fn
    return operation

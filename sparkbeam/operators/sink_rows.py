"""Rows of columns as cells for Spark's sinks."""

from typing import Any, Self

import pyarrow as pa
from apache_beam.runners.worker import operations
from apache_beam.utils import windowed_value

from sparkbeam.columns import Shape
from sparkbeam.plan.operator import Operator, Result
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.plan.spark_io import RowPacker
from sparkbeam.worker.blocks import GLOBAL, Block
from sparkbeam.worker.connectors.sink_cells import CELL_ROWS, PackArrow, cell_of
from sparkbeam.worker.connectors.sink_columns import columns_of
from sparkbeam.worker.refusals import count_refused_by
from sparkbeam.worker.steps.block_operation import BlockOperation
from sparkbeam.worker.steps.step import Step


class SinkRows(Operator):
    """Rows for a sink of Spark."""

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        fn: object = step.tabular
        return cls(step.label) if isinstance(fn, RowPacker) and fn.takes_columns else None

    def output_type(self, step: PlannedStep, shape: Shape) -> Result:
        return None

    def run(self, step: Step) -> operations.Operation:
        operation = step.block_operation(PackOperation)
        operation.fn = step.dofn.fn
        return operation


class PackOperation(BlockOperation):
    """Packer of blocks that are columns of rows; the DoFn packs other elements."""

    fn: PackArrow

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def process_block(self, block: Block) -> None:
        """Add many elements."""
        columns = None if block.column is None else columns_of(block.column, self.fn.row_schema)
        if columns is None:
            if block.column is not None:
                count_refused_by(self, "its rows are not of the types of the sink's columns")
            for value, micros in zip(block.values, block.times(), strict=True):
                self.process(windowed_value.create(value, micros, GLOBAL.windows))
            return
        if self.fn.is_for_query:
            columns.append(pa.array(block.time_column()))
        with self.scoped_process_state:
            self._waiting.append(pa.record_batch(columns, schema=self.fn.schema))
            self._rows += len(block)
            if self._rows >= CELL_ROWS:
                self._put_out()

    def _put_out(self) -> None:
        waiting, self._waiting, self._rows = self._waiting, [], 0
        if waiting:
            (batch,) = pa.Table.from_batches(waiting).combine_chunks().to_batches()
            self.receivers[0].receive(GLOBAL.with_value(cell_of(batch)))

    def finish(self) -> None:
        with self.scoped_finish_state:
            self._put_out()
        super().finish()

"""Columns of dicts as the tables that Beam's ``WriteToParquet`` writes."""

from typing import Any, Self

import apache_beam as beam
import pyarrow as pa
from apache_beam.runners.worker import operations

from sparkbeam.columns import FallBack, Refused, Shape, UnknownShape
from sparkbeam.columns.arrays import arrays_of_dicts
from sparkbeam.columns.vectors import empty_column
from sparkbeam.operators.dofn import DoFnOperation
from sparkbeam.operators.process import prepared
from sparkbeam.plan.operator import Operator, Result
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.upstream.parquet import RowGroups, row_groups_of
from sparkbeam.worker.blocks import GLOBAL, Block
from sparkbeam.worker.refusals import count_refused
from sparkbeam.worker.steps.step import Step


class ParquetTables(Operator):
    """Tables for Parquet."""

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        return None if row_groups_of(step.tabular) is None else cls(step.label)

    def output_type(self, step: PlannedStep, shape: Shape) -> Result:
        groups = row_groups_of(step.dofn)
        assert groups is not None
        try:
            arrays_of_dicts(empty_column(shape), shape, groups.schema)
        except (FallBack, UnknownShape) as error:
            return Refused(str(error))
        return None

    def run(self, step: Step) -> operations.Operation:
        return prepared(step, TablesOperation)


class TablesOperation(DoFnOperation):
    """Blocks of dict columns gathered for row groups; the DoFn processes other elements.

    Row groups are those that the DoFn makes of the same elements, unless it has gathered some of
    them, or their bytes are so near to the size of a group that it matters how Arrow pads them.
    """

    _groups: RowGroups

    def prepare(self, fn: beam.DoFn) -> None:
        super().prepare(fn)
        groups = row_groups_of(fn)
        assert groups is not None
        self._groups = groups

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._rest: list[pa.RecordBatch] = []
        self._windowing = GLOBAL

    def process_block(self, block: Block) -> None:
        """Add many elements."""
        with self.scoped_process_state:
            batch = self._batch_of(block)
            if batch is not None:
                self._windowing = block.windowing
                self._take(batch)
                return
            self._take_rest()
        super().process_block(block)

    def finish(self) -> None:
        with self.scoped_finish_state:
            self._take_rest()
        super().finish()

    def _batch_of(self, block: Block) -> pa.RecordBatch | None:
        column = block.column
        if column is None:
            return None
        if len(block.windowing.windows) != 1:
            count_refused("its elements have several windows")
            return None
        schema = self._groups.schema
        try:
            arrays = arrays_of_dicts(column.array, column.shape, schema)
        except FallBack as refusal:
            count_refused(str(refusal))
            return None
        return pa.record_batch(arrays, schema=schema)

    def _take(self, batch: pa.RecordBatch) -> None:
        """Add rows in batches of the size that the DoFn makes; the remaining rows wait."""
        size = self._groups.batch_rows
        missing = size - sum(map(len, self._rest))
        self._rest.append(batch[:missing])
        if len(batch) < missing:
            return
        self._take_rest()
        for start in range(missing, len(batch), size):
            part = batch[start : start + size]
            if len(part) == size:
                self._add([part])
            else:
                self._rest.append(part)

    def _take_rest(self) -> None:
        rest, self._rest = self._rest, []
        if rest:
            self._add(rest)

    def _add(self, parts: list[pa.RecordBatch]) -> None:
        table = self._groups.full()
        if table is not None:
            self._emitter.single(self._windowing.with_value(table))
        # Copies: Beam pickles some tables to see their size, and with a part all that it is of.
        copied = pa.Table.from_batches([*parts, parts[0][:0]]).combine_chunks()
        for batch in copied.to_batches():
            self._groups.add(batch, self._windowing.windows[0])

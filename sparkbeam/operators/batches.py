"""DoFns that take or make batches of elements.

Beam converts between elements and batches one by one. Here a block that is a column is a batch at
once, and a batch becomes blocks that are columns.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Self

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.runners.worker import operations
from apache_beam.transforms.window import TimestampedValue
from apache_beam.typehints.batch import ListBatchConverter
from apache_beam.utils import windowed_value
from apache_beam.utils.windowed_value import (
    HomogeneousWindowedBatch,
    WindowedBatch,
    WindowedValue,
)

from sparkbeam.columns import FallBack, Refused, Shape, Union, UnknownShape
from sparkbeam.columns.batches import Converter, batch_of, elements_declared, elements_of, passes
from sparkbeam.columns.vectors import empty_column
from sparkbeam.operators.function import Output
from sparkbeam.operators.process import ElementOperation, prepared
from sparkbeam.plan.model import Plan
from sparkbeam.plan.operator import Operator, Result
from sparkbeam.plan.pardo_functions import plain_batching
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.upstream.beam_batches import Batching
from sparkbeam.wire.failure import UserCodeFailed
from sparkbeam.worker.blocks import BLOCK_SIZE, SMALLEST_BLOCK, Block, column_rows
from sparkbeam.worker.refusals import count_refused, count_refused_by
from sparkbeam.worker.slots import runs_of
from sparkbeam.worker.steps.step import Step
from sparkbeam.worker.value_columns import column_of

_BATCH_SIZE = operations.GeneralPurposeConsumerSet.MAX_BATCH_SIZE


class Batches(Operator):
    """Batches of elements."""

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        batching = step.batching
        if batching is None:
            return None
        return cls(step.label, "it handles batches" if batching.taken is None else None)

    def output_type(self, step: PlannedStep, shape: Shape) -> Result:
        if self.reason is not None:
            return super().output_type(step, shape)
        batching = _batching(step)
        assert batching.taken is not None
        makers = (maker for maker in step.before() if isinstance(maker.operator, Batches))
        if any(passes(_batching(maker).made, batching.taken) for maker in makers):
            return None
        if batching.takes_elements:
            return Refused("it also takes single elements")
        try:
            batch_of(batching.taken, empty_column(shape), shape)
        except (FallBack, UnknownShape) as error:
            return Refused(str(error))
        return None

    def created_type(self, plan: Plan, step: PlannedStep) -> Shape | None:
        made = _batching(step).made
        return None if made is None else elements_declared(made)

    def creates_columns(self, step: PlannedStep) -> bool:
        return _batching(step).made is not None

    def run(self, step: Step) -> operations.Operation:
        return prepared(step, BatchOperation)


def _batching(step: PlannedStep) -> Batching:
    batching = step.batching
    assert batching is not None
    return batching


class BatchOperation(ElementOperation):
    """A DoFn that takes or makes batches."""

    takes_assigned = False  # A batch has one windowing.

    batching: Batching

    def prepare(self, fn: beam.DoFn) -> None:
        super().prepare(fn)
        batching = plain_batching(fn)
        assert batching is not None
        self.batching = batching
        self._process = fn.process
        self.function = fn.process_batch

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._passes = passes_batches(self.batching.made, self.readers)
        self._are_taken = any(
            reader.get_batching_preference().supports_batches for reader in self.readers
        )
        self._gathered: list[Block] = []
        self._waiting: list[WindowedValue] = []

    def process(self, o: WindowedValue) -> None:
        """Process an element, of which there may be batches."""
        if not self.batching.elements_give_batches:
            operations.DoOperation.process(self, o)
            return
        with self.scoped_process_state:
            self._emit_batches(self._process, o.value, o)

    def process_block(self, block: Block) -> None:
        """Process elements: in batches if it takes no single ones, as Beam does."""
        if self.batching.takes_elements:
            if block.column is not None:
                count_refused_by(self, "it also takes single elements")
            for element in block.elements():
                self.process(element)
            return
        parts = list(_by_time(block))
        if block.column is not None and parts[0].column is None:
            count_refused_by(self, "its elements have too many different timestamps")
        for part in parts:
            if part.column is None:
                self._wait(part)
            else:
                self._gather(part)

    def process_batch(self, windowed_batch: WindowedBatch) -> None:
        """Process a batch that Beam has made."""
        assert isinstance(windowed_batch, HomogeneousWindowedBatch)
        self._take(windowed_batch.values, windowed_batch.as_empty_windowed_value())

    def finish(self) -> None:
        self._take_gathered()
        self._flush()
        super().finish()

    def _gather(self, block: Block) -> None:
        """Add a column, which waits for others if it is small."""
        if self._gathered and not _are_alike(self._gathered[-1], block):
            self._take_gathered()
        self._gathered.append(block)
        if sum(map(len, self._gathered)) >= _BATCH_SIZE:
            self._take_gathered()

    def _take_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        if not gathered:
            return
        block = _joined(gathered)
        with self.scoped_process_state:
            batch = self._batch_of(block)
        if batch is None:
            self._wait(block)
        else:
            self._take(batch, block.windowing)

    def _batch_of(self, block: Block) -> Any:
        """Return the elements of a column as a batch; None if Beam has to make it."""
        column, converter = block.column, self.batching.taken
        assert column is not None
        assert converter is not None
        if isinstance(converter, ListBatchConverter):
            return column.values()
        try:
            return batch_of(converter, column.array, column.shape)
        except FallBack as refusal:
            count_refused(str(refusal))
            return None

    def _wait(self, block: Block) -> None:
        for element in block.elements():
            self._waiting.append(element)
            if len(self._waiting) >= _BATCH_SIZE:
                self._flush()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            make = self._to_batch
            for batch in WindowedBatch.from_windowed_values(waiting, produce_fn=make):
                self.process_batch(batch)

    def _to_batch(self, elements: list[Any]) -> Any:
        assert self.batching.taken is not None
        try:
            return self.batching.taken.produce_batch(elements)
        except Exception as error:
            raise UserCodeFailed(self.name_context.step_name) from error

    def _take(self, batch: Any, template: WindowedValue) -> None:
        with self.scoped_process_state:
            if self.batching.batches_give_batches:
                self._emit_batches(self.function, batch, template)
            else:
                self._flat_map([batch], Output(self, template))

    def _emit_batches(
        self, function: Callable[[Any], Any], value: Any, template: WindowedValue
    ) -> None:
        """Emit the batches that the DoFn makes of a value."""
        for made in self._results_of(function, value):
            if isinstance(made, WindowedValue | TimestampedValue):
                error = TypeError(f"a {type(made).__name__} is emitted instead of a batch")
                raise UserCodeFailed(self.name_context.step_name) from error
            if isinstance(made, HomogeneousWindowedBatch):
                made.windows *= len(template.windows)
                self._emit_batch(made.values, made.as_empty_windowed_value())
            elif not isinstance(made, TaggedOutput):  # Nobody reads the tag.
                self._emit_batch(made, template)

    def _results_of(self, function: Callable[[Any], Any], value: Any) -> Iterator[Any]:
        try:
            results = function(value)
            yield from () if results is None else results
        except Exception as error:
            raise UserCodeFailed(self.name_context.step_name) from error

    def _emit_batch(self, batch: Any, template: WindowedValue) -> None:
        converter = self.batching.made
        assert converter is not None
        if self._passes:
            self._emit_as_beam(batch, template)
            return
        try:
            elements = elements_of(converter, batch)
        except FallBack:
            if self._are_taken:
                # It warns of what that costs.
                self._emit_as_beam(batch, template)
                return
            self._emit_elements(self._results_of(converter.explode_batch, batch), template)
            return
        for array in elements.arrays:
            size = column_rows(len(array), array.nbytes)
            for start in range(0, len(array), size):
                column = column_of(array.slice(start, size), elements.shape)
                self._emitter.block(Block(template, column))

    def _emit_as_beam(self, batch: Any, template: WindowedValue) -> None:
        self.receivers[0].receive_batch(HomogeneousWindowedBatch(template.with_value(batch)))

    def _emit_elements(self, elements: Iterator[Any], template: WindowedValue) -> None:
        while some := list(islice(elements, BLOCK_SIZE)):
            if all(isinstance(one, np.generic) for one in some):  # Which nobody can change.
                self._emitter.block(Block(template, some))
                continue
            for one in some:
                self._emitter.single(template.with_value(one))


def passes_batches(made: Converter | None, readers: list[operations.Operation]) -> bool:
    """Return whether a reader takes the batches of a DoFn without conversion."""
    return any(
        reader.get_batching_preference().supports_batches
        and passes(made, reader.get_input_batch_converter())
        for reader in readers
    )


def _are_alike(left: Block, right: Block) -> bool:
    """Return whether the elements of two columns may share a batch."""
    first, second = left.column, right.column
    assert first is not None
    assert second is not None
    if first.shape != second.shape or first.array.type != second.array.type:
        return False
    return bool(left.windowing.with_value(None) == right.windowing.with_value(None)) and not (
        isinstance(first.shape, Union)
    )


def _joined(blocks: list[Block]) -> Block:
    """Return the elements of columns that are alike."""
    if len(blocks) == 1:
        return blocks[0]
    columns = [block.column for block in blocks if block.column is not None]
    array = pa.concat_arrays([column.array for column in columns])
    return Block(blocks[0].windowing, replace(columns[0], array=array))


def _by_time(block: Block) -> Iterator[Block]:
    """Yield the elements of a block in blocks that share their timestamps, if these are large."""
    if not block.is_stamped:
        yield block
        return
    times = block.time_column()
    if block.column is None or SMALLEST_BLOCK * len(np.unique(times)) > len(times):
        yield from block.unstamped()
        return
    windowing = block.windowing
    for first, rows in runs_of(times):
        micros = int(times[first])
        template = windowed_value.create(None, micros, windowing.windows, windowing.pane_info)
        yield Block(template, block.column if rows is None else block.column.take(rows))

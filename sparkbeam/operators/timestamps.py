"""Elements, or the values of pairs, with their timestamps: the first step of ``Latest``."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa
from apache_beam.runners.worker import operations

from sparkbeam.columns import FallBack, RecordShape, Refused, Shape, UnknownShape
from sparkbeam.columns.python_types import is_tuple, tells_all
from sparkbeam.columns.vectors import Micros, empty_column
from sparkbeam.plan.operator import Operator, Result
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.upstream.beam import StampedPart, part_stamped_by
from sparkbeam.windows.choices import STAMP
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.refusals import count_refused
from sparkbeam.worker.slots import parts_of
from sparkbeam.worker.steps.block_operation import BlockOperation
from sparkbeam.worker.steps.step import Step
from sparkbeam.worker.value_columns import column_of

_NAMES = ("0", "1")


@dataclass(frozen=True)
class Timestamps(Operator):
    """Elements with their timestamps.

    Attributes:
        part: the part of each element to join them to.
    """

    part: StampedPart = field(kw_only=True)

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        part = part_stamped_by(step.tabular)
        return None if part is None else cls(step.label, part=part)

    def output_type(self, step: PlannedStep, shape: Shape) -> Result:
        try:
            return _with_times(empty_column(shape), shape, self.part)[1]
        except (FallBack, UnknownShape) as error:
            return Refused(str(error))

    def run(self, step: Step) -> operations.Operation:
        made = step.block_operation(StampingOperation)
        made.part = self.part
        return made


class StampingOperation(BlockOperation):
    """Pairs of elements and timestamps for column blocks; the DoFn processes other elements.

    Attributes:
        part: the part of each element to join them to.
    """

    part: StampedPart

    def process_block(self, block: Block) -> None:
        """Process many elements."""
        with self.scoped_process_state:
            stamped = self._stamped(block)
            if stamped is not None:
                self._emitter.block(stamped)
                return
        for some in parts_of(block):
            for element in some.elements():
                self.process(element)

    def _stamped(self, block: Block) -> Block | None:
        column = block.column
        if column is None:
            return None
        try:
            made = _with_times(column.array, column.shape, self.part, block.time_column())
        except FallBack as refusal:
            count_refused(str(refusal))
            return None
        return block.with_column(column_of(*made), None)


def _with_times(
    array: pa.Array, shape: Shape, part: StampedPart, times: Micros | None = None
) -> tuple[pa.Array, RecordShape]:
    """Return elements of a column with their timestamps.

    Args:
        array: the elements.
        shape: the shape of each element.
        part: to what of each the timestamp is joined.
        times: the timestamps in microseconds; None for those of an empty column.

    Raises:
        FallBack: the elements are no pairs, and have to be, or their shape does not tell all.
    """
    if not tells_all(shape):
        raise FallBack("its results hold structs in lists or maps")
    stamps = pa.array(np.zeros(len(array), np.int64) if times is None else times)
    stamps = stamps.cast(STAMP.arrow_type)
    if part == "element":
        return _pairs((array, shape), (stamps, STAMP))
    if not isinstance(shape, RecordShape) or not is_tuple(shape) or len(shape.fields) != 2:
        raise FallBack(f"its input is no pair, but {shape}")
    if array.null_count:
        raise FallBack("it meets None")
    key, value = ((array.field(at), field) for at, field in enumerate(shape.fields))
    return _pairs(key, _pairs(value, (stamps, STAMP)))


def _pairs(left: tuple[pa.Array, Any], right: tuple[pa.Array, Any]) -> tuple[pa.Array, RecordShape]:
    array = pa.StructArray.from_arrays([left[0], right[0]], list(_NAMES))
    return array, RecordShape(tuple, _NAMES, (left[1], right[1]))

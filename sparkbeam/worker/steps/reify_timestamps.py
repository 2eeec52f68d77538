"""Operations on blocks: elements with their timestamps, for ``Latest``."""

from typing import Any

from apache_beam.runners.worker import operations

from sparkbeam.columns import NotExact
from sparkbeam.plan.timestamping import with_times
from sparkbeam.upstream.beam import StampedPart, part_stamped_by
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.emitter import Emitter
from sparkbeam.worker.refusals import count_refused
from sparkbeam.worker.slots import parts_of
from sparkbeam.worker.steps.step import Step
from sparkbeam.worker.value_columns import column_of


class StampingOperation(operations.DoOperation):
    """Pairs of elements and timestamps for column blocks; the DoFn processes other elements.

    Attributes:
        part: the part of each element to join them to.
        readers: the operations that take the results.
    """

    takes_assigned = True
    """True, as blocks are emitted with their assigned windows."""

    part: StampedPart
    readers: list[operations.Operation]

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._emitter = Emitter(self.readers, self.receivers[0])

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
            made = with_times(column.array, column.shape, self.part, block.time_column())
        except NotExact as refusal:
            count_refused(str(refusal))
            return None
        return block.with_column(column_of(*made), None)


def make_timestamps(step: Step) -> operations.DoOperation:
    """Make the operation of the first step of ``Latest``."""
    window_fn = step.windowing(step.input).windowfn
    made = step.block_operation(StampingOperation, step.dofn, window_fn)
    part = part_stamped_by(step.dofn.fn)
    assert part is not None
    made.part = part
    return made

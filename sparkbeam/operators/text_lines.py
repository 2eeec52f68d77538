"""Lines of text files, which Beam's ``ReadFromText`` reads in batch."""

from typing import Self

from apache_beam.runners.worker import operations
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.columns import Shape
from sparkbeam.columns.python_types import STR
from sparkbeam.operators.beam import why_called
from sparkbeam.operators.restrictions import RestrictionOperation
from sparkbeam.plan.arrow_batches import emitting_step
from sparkbeam.plan.model import Plan
from sparkbeam.plan.operator import Operator
from sparkbeam.plan.pardo_functions import dofn_in, dofn_of
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.plan.urns import PROCESS_RESTRICTIONS
from sparkbeam.upstream.beam_files import source_of_read
from sparkbeam.upstream.text import is_text, lines_of, may_read_text
from sparkbeam.wire.failure import within_step
from sparkbeam.worker.blocks import Block, column_rows
from sparkbeam.worker.steps.block_operation import BlockOperation
from sparkbeam.worker.steps.step import Step
from sparkbeam.worker.value_columns import column_of


class TextLines(Operator):
    """Lines of text files in UTF-8."""

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        stage = step.stage
        if step.urn != PROCESS_RESTRICTIONS or stage.is_streaming or not stage.in_columns:
            return None
        return cls(step.label, why_called(step)) if may_read_text(dofn_in(step.payload)) else None

    def created_type(self, plan: Plan, step: PlannedStep) -> Shape | None:
        emitting = emitting_step(plan, step.label.partition("/SDFBoundedSourceReader/")[0])
        is_read = emitting is not None and is_text(source_of_read(dofn_of(emitting)))
        return STR if is_read else None

    def run(self, step: Step) -> operations.Operation:
        return step.block_operation(TextLinesOperation)


class TextLinesOperation(BlockOperation, RestrictionOperation):
    """Reader of lines as blocks that are columns; of other sources as Beam reads them."""

    takes_assigned = False

    def process(self, o: WindowedValue) -> None:
        """Emit the lines that begin in a part of a file."""
        (_, (restriction, _)), _ = o.value
        found = lines_of(restriction)
        if found is None:
            super().process(o)
            return
        template = o.with_value(None)
        with self.scoped_process_state, within_step(self.name_context.step_name):
            for lines in found:
                if isinstance(lines, list):
                    self._emitter.block(Block(template, lines))
                    continue
                size = column_rows(len(lines), lines.nbytes)
                for start in range(0, len(lines), size):
                    column = column_of(lines.slice(start, size), STR)
                    self._emitter.block(Block(template, column))

"""The table of steps: which operation runs a transform of a stage.

The ways are tried in their order, and the first one that suits is taken. Beam's own operation
suits all.
"""

from typing import Any

from apache_beam.coders import coders
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.worker import bundle_processor, operations

from sparkbeam.wire.failure import within_step
from sparkbeam.worker.keyed.requests import StageState
from sparkbeam.worker.steps import (
    argument_functions,
    arrow_tables,
    assign_windows,
    batch_processing,
    combine_phases,
    combines,
    dofns,
    edges,
    firing,
    functions,
    identity,
    parquet_writes,
    reify_timestamps,
    restrictions,
    session_combine,
    sink_rows,
)
from sparkbeam.worker.steps.sampling import sampled
from sparkbeam.worker.steps.step import Step, Way

OF_OUR_OWN: tuple[Way[Any], ...] = (
    edges.SOURCE,
    edges.SINK,
    functions.CREATE,
    firing.FIRING,
    combines.BY_STAMP,
)
"""What only sparkbeam has."""

IN_BLOCKS: tuple[Way[Any], ...] = (
    arrow_tables.TABLE_ROWS,
    sink_rows.PACK,
    batch_processing.BATCHES,
    parquet_writes.TABLES,
    functions.FUNCTION,
    argument_functions.ARGUMENTS,
    reify_timestamps.STAMPING,
    dofns.DOFN,
    identity.IDENTITY,
    assign_windows.WINDOWS,
    session_combine.SESSION_COMBINE,
    combines.PRECOMBINE,
    combine_phases.MERGE,
    combine_phases.EXTRACT,
)
"""What does the same as Beam's own operations, faster."""

BEAMS_OWN: tuple[Way[Any], ...] = (dofns.STATEFUL, restrictions.RESTRICTION)
"""Beam's own operations that need something of sparkbeam; the others Beam's factory makes."""


class StepFactory(bundle_processor.BeamTransformFactory):
    """Makes the operations of a stage; those of other runners in this process as Beam does."""

    def create_operation(
        self, transform_id: str, consumers: dict[str, list[operations.Operation]]
    ) -> operations.Operation:
        """Makes the operation that runs a transform."""
        if not isinstance(self.state_handler, StageState):
            return super().create_operation(transform_id, consumers)
        step = Step(self, transform_id, consumers)
        with within_step(step.label):
            for way in (*OF_OUR_OWN, *IN_BLOCKS, *BEAMS_OWN):
                found = way.suits(step)
                if found is not None:
                    return way.make(step, found)
            return super().create_operation(transform_id, consumers)

    def get_output_coders(
        self, transform_proto: beam_runner_api_pb2.PTransform
    ) -> dict[str, coders.Coder]:
        """The coders by which the outputs of a transform are measured."""
        found = super().get_output_coders(transform_proto)
        if not isinstance(self.state_handler, StageState):
            return found
        return {tag: sampled(coder) for tag, coder in found.items()}

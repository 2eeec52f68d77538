"""The table of operators: the factory of each kind's operation.

The plan has chosen the kinds; see :mod:`sparkbeam.plan.operator_choice`.
"""

from collections.abc import Callable, Mapping
from functools import partial

from apache_beam.coders import coders
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.worker import bundle_processor, operations

from sparkbeam.plan.model import SINK_URN, SOURCE_URN
from sparkbeam.plan.operators import Kind
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
from sparkbeam.worker.steps.step import Step

Make = Callable[[Step], operations.Operation]

OPERATIONS: Mapping[Kind, Make] = {
    Kind.CREATE: partial(functions.make_function, functions.CreateOperation),
    Kind.FIRE: firing.make_fire,
    Kind.TABLE_ROWS: arrow_tables.make_table_rows,
    Kind.SINK_ROWS: sink_rows.make_sink_rows,
    Kind.BATCHES: batch_processing.make_batches,
    Kind.PARQUET_TABLES: parquet_writes.make_parquet_tables,
    Kind.FUNCTION: partial(functions.make_function, functions.FunctionOperation),
    Kind.ARGUMENTS: argument_functions.make_argument_function,
    Kind.TIMESTAMPS: reify_timestamps.make_timestamps,
    Kind.PROCESS: dofns.make_process,
    Kind.DOFN: dofns.make_dofn,
    Kind.STATEFUL_DOFN: dofns.make_stateful_dofn,
    Kind.IDENTITY: identity.make_identity,
    Kind.WINDOWS: assign_windows.make_windows,
    Kind.SESSION_COMBINE: session_combine.make_session_combine,
    Kind.PRECOMBINE: partial(combines.make_precombine, combines.PrecombineOperation),
    Kind.MERGE: partial(combine_phases.make_phase, combine_phases.MergeOperation),
    Kind.EXTRACT: partial(combine_phases.make_phase, combine_phases.ExtractOperation),
    Kind.STATEFUL: dofns.make_stateful,
    Kind.RESTRICTIONS: restrictions.make_restrictions,
}
"""Factories of all kinds but the one that Beam's factory makes."""

_ENDS: Mapping[str, Make] = {SOURCE_URN: edges.make_source, SINK_URN: edges.make_sink}


class StepFactory(bundle_processor.BeamTransformFactory):
    """Factory of a stage's operations; other runners in this process get Beam's operations."""

    def create_operation(
        self, transform_id: str, consumers: dict[str, list[operations.Operation]]
    ) -> operations.Operation:
        """Create the operation that runs a transform."""
        if not isinstance(self.state_handler, StageState):
            return super().create_operation(transform_id, consumers)
        step = Step(self, transform_id, consumers)
        with within_step(step.label):
            make = _ENDS.get(step.urn) or OPERATIONS.get(step.operator.kind)
            return make(step) if make else super().create_operation(transform_id, consumers)

    def get_output_coders(
        self, transform_proto: beam_runner_api_pb2.PTransform
    ) -> dict[str, coders.Coder]:
        """Return the coders that measure the outputs of a transform."""
        found = super().get_output_coders(transform_proto)
        if not isinstance(self.state_handler, StageState):
            return found
        return {tag: sampled(coder) for tag, coder in found.items()}

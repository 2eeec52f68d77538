"""The factory of a stage's operations: each operator makes its own."""

from collections.abc import Callable, Mapping

from apache_beam.coders import coders
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.worker import bundle_processor, operations

from sparkbeam.plan.model import SINK_URN, SOURCE_URN
from sparkbeam.wire.failure import within_step
from sparkbeam.worker.keyed.requests import StageStateHandler
from sparkbeam.worker.steps.edges import SinkOperation, SourceOperation
from sparkbeam.worker.steps.sampling import sampled
from sparkbeam.worker.steps.step import Step

_ENDS: Mapping[str, Callable[[Step], operations.Operation]] = {
    SOURCE_URN: SourceOperation,
    SINK_URN: SinkOperation,
}


class StepFactory(bundle_processor.BeamTransformFactory):
    """Factory of a stage's operations; other runners in this process get Beam's operations."""

    def create_operation(
        self, transform_id: str, consumers: dict[str, list[operations.Operation]]
    ) -> operations.Operation:
        """Create the operation that runs a transform."""
        if not isinstance(self.state_handler, StageStateHandler):
            return super().create_operation(transform_id, consumers)
        step = Step(self, transform_id, consumers)
        with within_step(step.label):
            make = _ENDS.get(step.urn) or step.operator.run
            made: operations.Operation = make(step)
            return made

    def get_output_coders(
        self, transform_proto: beam_runner_api_pb2.PTransform
    ) -> dict[str, coders.Coder]:
        """Return the coders that measure the outputs of a transform."""
        found = super().get_output_coders(transform_proto)
        if not isinstance(self.state_handler, StageStateHandler):
            return found
        return {tag: sampled(coder) for tag, coder in found.items()}

"""Parameters of sparkbeam's own stateful DoFns besides Beam's: watermark and hold."""

from typing import Any

from apache_beam.coders import coders
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms.userstate import StateSpec

_PROTOCOL = "sparkbeam:user_state:event_time:v1"


class EventTimeSpec(StateSpec):
    """Parameter that gives a DoFn the watermark of its input, and a hold on that of its output."""

    def __init__(self, name: str) -> None:
        super().__init__(name, coders.BytesCoder())

    def to_runner_api(self, context: Any) -> beam_runner_api_pb2.StateSpec:
        """Return the state in a pipeline's proto; Beam's hook."""
        return beam_runner_api_pb2.StateSpec(
            bag_spec=beam_runner_api_pb2.BagStateSpec(
                element_coder_id=context.coders.get_id(self.coder)
            ),
            protocol=beam_runner_api_pb2.FunctionSpec(urn=_PROTOCOL),
        )

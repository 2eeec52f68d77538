"""The bundle processor of a stage: Beam's own, with sparkbeam's source and sinks."""

import logging
from collections.abc import Callable, Iterator
from typing import Any, Self, TypeAlias

from apache_beam.internal import pickler
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker import bundle_processor, operations, statesampler
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY

from sparkbeam.plan.model import Stage
from sparkbeam.plan.parsed_stage import proto_of
from sparkbeam.upstream.beam import finalizer_callbacks, parts_of_bundles
from sparkbeam.upstream.sampler import Sampler
from sparkbeam.wire.consolidation import Infos
from sparkbeam.wire.failure import FailureReports
from sparkbeam.worker.finalizers import Callback
from sparkbeam.worker.keyed.requests import StageStateHandler
from sparkbeam.worker.keyed.timers import Timers
from sparkbeam.worker.side_inputs import SideInputMap, remember_windows
from sparkbeam.worker.steps.counted import infos_of
from sparkbeam.worker.steps.edges import SinkOperation, SourceOperation
from sparkbeam.worker.steps.step_factory import StepFactory

_logger = logging.getLogger(__name__)

Residual: TypeAlias = beam_fn_api_pb2.DelayedBundleApplication

Message: TypeAlias = beam_fn_api_pb2.Elements.Data | beam_fn_api_pb2.Elements.Timers

Feed = Callable[[Message], Iterator[Message]]
"""Source of the messages of a bundle; see :meth:`StageProcessor.process`."""


class _Channel:
    """Replacement of gRPC: the only channel of a bundle processor, and the factory of channels."""

    def __init__(self, source_id: str, timers: Timers) -> None:
        self._source_id = source_id
        self._timers = timers
        self.feed: Feed = lambda _: iter(())

    def input_elements(self, instruction_id: str, expected: Any) -> Iterator[Any]:
        # The data never goes through the message: it says "go on", and the
        # source operation takes its elements from an iterator.
        go_on = beam_fn_api_pb2.Elements.Data(transform_id=self._source_id, data=b"-")
        return self.feed(go_on)

    def create_data_channel(self, port: Any) -> Self:
        return self

    def create_data_channel_from_url(self, url: str, data_stream_id: Any = None) -> Self:
        return self

    def output_timer_stream(self, instruction_id: str, transform_id: str, family: str) -> Any:
        return self._timers.streams[(transform_id, family)]


class StageProcessor:
    """Runner of the bundles of one stage.

    Attributes:
        state: answers requests for state and side inputs.
    """

    def __init__(self, stage: Stage) -> None:
        if stage.row_types:
            SCHEMA_REGISTRY.load_registered_typings(pickler.loads(stage.row_types))
        descriptor = proto_of(stage.descriptor)
        remember_windows(descriptor, stage.side_inputs)
        self.timers = Timers(descriptor, stage.state_name)
        if self.timers.streams:
            descriptor.timer_api_service_descriptor.url = "in-process"
        channel: Any = _Channel(stage.source_id, self.timers)
        self._channel: _Channel = channel
        self.state = StageStateHandler(stage.state_name, stage)
        with parts_of_bundles(StepFactory, SideInputMap, Sampler):
            self._processor = bundle_processor.BundleProcessor(
                frozenset(), descriptor, self.state, channel
            )
        self.timers.bind(self._processor)
        made: dict[str, Any] = self._processor.ops
        self.source: SourceOperation = made[stage.source_id]
        self.sinks = [op for op in made.values() if isinstance(op, SinkOperation)]
        creating = {one.label for one in stage.operators if one.creates}
        self.creates = [op for id, op in made.items() if id in creating]
        self.entry = self.creates[0] if self.creates else self.source
        self._bundles = 0

    def process(self, feed: Feed) -> list[Residual]:
        """Process one bundle.

        Args:
            feed: gives the messages of the bundle: the one that it is called with, once
                it has set the source's elements, or those of timers.

        Returns:
            The residuals of splittable DoFns.
        """
        if self._bundles:
            self._processor.reset()
        self._bundles += 1
        self._channel.feed = feed
        residuals, _ = self._processor.process_bundle(f"bundle-{self._bundles}")
        return residuals

    def split(self) -> list[Residual]:
        """End the current restriction as soon as possible; from any thread.

        Returns:
            The residual of the restriction.
        """
        residuals: list[Residual] = []
        for operation in self._processor.ops.values():
            if isinstance(operation, operations.SdfProcessSizedElements):
                _, left = operation.try_split(0.0) or ((), ())
                residuals += [self._processor.delayed_bundle_application(*some) for some in left]
        return residuals

    @property
    def sampler(self) -> statesampler.StateSampler:
        """Sampler of the step that a bundle has reached; readable from any thread."""
        return self._processor.state_sampler

    def take_finalizers(self) -> list[Callback]:
        """Return the callbacks of the bundle's finalizers, for the caller to call."""
        if not self._processor.requires_finalization():
            return []
        return finalizer_callbacks(self._processor.finalize_bundle)

    def monitoring_infos(self) -> Infos:
        """Return the metrics of the last bundle; from any thread."""
        return infos_of(self._processor.ops, self._processor.process_bundle_descriptor)

    def shutdown(self) -> None:
        """Tear down all DoFns, even if some fail: no task is there to fail with them."""
        for operation in self._processor.ops.values():
            try:
                operation.teardown()
            except Exception as error:
                found = FailureReports().describe(error, str(operation.name_context.step_name))
                _logger.warning("The teardown of step '%s' failed: %s", found.label, found.error)

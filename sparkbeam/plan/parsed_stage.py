"""The description of a stage, parsed once: its transforms, coders and windowing."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TypeAlias

import apache_beam as beam
from apache_beam.coders import coders
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from apache_beam.runners import pipeline_context
from apache_beam.transforms.core import Windowing

from sparkbeam.plan.memo import memoized, remember
from sparkbeam.plan.model import SINK_URN, SOURCE_URN, Stage
from sparkbeam.plan.urns import COMBINE_PER_KEY, own_payload

Descriptor: TypeAlias = beam_fn_api_pb2.ProcessBundleDescriptor


class ParsedStage:
    """A stage's ``ProcessBundleDescriptor`` with typed views of its parts.

    Args:
        proto: the descriptor, which must not be changed.
        context: Beam's objects for its coders and windowing, if they are known.
    """

    def __init__(
        self,
        proto: Descriptor,
        source_id: str,
        context: pipeline_context.PipelineContext | None = None,
    ) -> None:
        self.proto = proto
        self._source_id = source_id
        self._context = context

    @property
    def transforms(self) -> Mapping[str, beam_runner_api_pb2.PTransform]:
        """The transforms by their ids, source and sinks included."""
        return self.proto.transforms

    @cached_property
    def context(self) -> pipeline_context.PipelineContext:
        """Beam's objects for the coders and windowing strategies."""
        return self._context or pipeline_context.PipelineContext(self.proto)

    @property
    def source(self) -> beam_runner_api_pb2.PTransform:
        """The source operation."""
        return self.transforms[self._source_id]

    @property
    def main_input(self) -> str:
        """The PCollection that the source puts out."""
        (output,) = self.source.outputs.values()
        return output

    def with_urn(self, urn: str) -> Iterator[beam_runner_api_pb2.PTransform]:
        """Yield the transforms of one kind."""
        return (one for one in self.transforms.values() if one.spec.urn == urn)

    def readers(self, pcollection: str) -> Iterator[beam_runner_api_pb2.PTransform]:
        """Yield the transforms that read a PCollection."""
        for transform in self.transforms.values():
            if pcollection in transform.inputs.values():
                yield transform

    def in_order(self) -> Iterator[beam_runner_api_pb2.PTransform]:
        """Yield the user's transforms in a fixed topological order."""
        waiting = dict(self.transforms)
        made: set[str] = set()
        while waiting:
            ready = [
                id
                for id, transform in waiting.items()
                if transform.spec.urn == SOURCE_URN or made.issuperset(transform.inputs.values())
            ]
            # Side inputs come from elsewhere, so that nothing may seem to be ready.
            for id in sorted(ready or waiting):
                transform = waiting.pop(id)
                made.update(transform.outputs.values())
                if transform.spec.urn not in (SOURCE_URN, SINK_URN):
                    yield transform

    def coder(self, pcollection: str) -> coders.Coder:
        """Return the coder of the elements of a PCollection."""
        coder_id = self.proto.pcollections[pcollection].coder_id
        return self.context.coders.get_by_id(coder_id)

    def windowing(self, pcollection: str) -> Windowing:
        """Return the windowing of a PCollection."""
        strategy_id = self.proto.pcollections[pcollection].windowing_strategy_id
        return self.context.windowing_strategies.get_by_id(strategy_id)

    def window_coder(self, pcollection: str) -> coders.Coder:
        """Return the coder of the windows of a PCollection."""
        strategy_id = self.proto.pcollections[pcollection].windowing_strategy_id
        coder_id = self.proto.windowing_strategies[strategy_id].window_coder_id
        return self.context.coders.get_by_id(coder_id)

    def combine_fn(self, transform: beam_runner_api_pb2.PTransform) -> beam.CombineFn:
        """Return the CombineFn of a combine or of one of its phases."""
        return combine_fn_of(transform, self.context)


def combine_fn_of(
    transform: beam_runner_api_pb2.PTransform, context: pipeline_context.PipelineContext
) -> beam.CombineFn:
    """Load the CombineFn of a combine or of one of its phases."""
    payload = own_payload(COMBINE_PER_KEY, transform.spec.payload)
    return beam.CombineFn.from_runner_api(payload.combine_fn, context)


def parsed(stage: Stage) -> ParsedStage:
    """Return the description of a stage, shared by all that ask within a translation."""
    return _parsed(stage.descriptor, stage.source_id)


def share(stage: Stage, description: ParsedStage) -> None:
    """Have :func:`parsed` return the description from which a stage was made."""
    remember(_parsed, description, stage.descriptor, stage.source_id)


def proto_of(descriptor: bytes) -> Descriptor:
    """Parse the descriptor of a stage for a caller who owns the result."""
    return Descriptor.FromString(descriptor)


@memoized
def _parsed(descriptor: bytes, source_id: str) -> ParsedStage:
    return ParsedStage(proto_of(descriptor), source_id)

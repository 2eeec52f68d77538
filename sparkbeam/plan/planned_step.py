"""A step of a stage, as its operator sees it when the plan is made."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import apache_beam as beam
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import GlobalWindows

from sparkbeam.columns import Shape
from sparkbeam.plan.model import Port, Stage
from sparkbeam.plan.pardo_functions import batching_in, dofn_in, function_in, par_do_payload
from sparkbeam.plan.parsed_stage import ParsedStage, parsed
from sparkbeam.plan.urns import PAR_DO
from sparkbeam.upstream.beam import handles_batches
from sparkbeam.upstream.beam_batches import Batching

if TYPE_CHECKING:
    from sparkbeam.plan.operator import Operator


class PlannedStep:
    """A step of a stage, for which an operator is chosen, or has been.

    Args:
        tagged: of a CoGroupByKey that the stage reads, the tags and the types of their values.

    Attributes:
        label: the label of the step, which is the id of its transform.
    """

    def __init__(
        self,
        stage: Stage,
        transform: beam_runner_api_pb2.PTransform,
        tagged: Mapping[str, Shape] = MappingProxyType({}),
    ) -> None:
        self.stage = stage
        self.transform = transform
        self.tagged = tagged
        self.urn = str(transform.spec.urn)
        self.label = str(transform.unique_name)

    @property
    def payload(self) -> bytes:
        """The payload of the transform."""
        return self.transform.spec.payload

    @property
    def parsed(self) -> ParsedStage:
        """The description of the stage."""
        return parsed(self.stage)

    @cached_property
    def operator(self) -> "Operator":
        """The operator that has been chosen."""
        return next(one for one in self.stage.operators if one.label == self.label)

    @cached_property
    def par_do(self) -> beam_runner_api_pb2.ParDoPayload:
        """The payload of a ParDo, which must not be changed."""
        return par_do_payload(self.payload)

    @cached_property
    def is_stateful(self) -> bool:
        """Return whether it is a ParDo with state or timers."""
        return self.urn == PAR_DO and bool(
            self.par_do.state_specs or self.par_do.timer_family_specs
        )

    @cached_property
    def is_simple(self) -> bool:
        """Return whether it is a ParDo with one output that needs no more than state."""
        return (
            self.urn == PAR_DO
            and len(self.transform.outputs) == 1
            and not self.par_do.restriction_coder_id
            and not self.par_do.requests_finalization
            and not self.par_do.side_inputs
        )

    @cached_property
    def dofn(self) -> beam.DoFn | None:
        """The DoFn of a simple ParDo without further arguments; None for any other step."""
        return dofn_in(self.payload) if self.is_simple else None

    @property
    def tabular(self) -> beam.DoFn | None:
        """The same, of a stage whose steps may make columns."""
        return self.dofn if self.stage.in_columns else None

    @cached_property
    def function(self) -> beam.DoFn | None:
        """The DoFn of a ParDo that is a function of the element alone; None for another step."""
        return function_in(self.payload) if self.is_simple and not self.is_stateful else None

    @property
    def batching(self) -> Batching | None:
        """Batch handling of its DoFn; None for another step, or if no step makes columns."""
        fn = None if self.is_stateful else self.tabular
        return batching_in(self.payload) if fn is not None and handles_batches(fn) else None

    @property
    def output(self) -> str:
        """Its one output."""
        (output,) = self.transform.outputs.values()
        return output

    @property
    def ports(self) -> list[Port]:
        """The ports that its outputs fill."""
        outputs = self.transform.outputs.values()
        return [port for port in self.stage.ports if port.pcollection in outputs]

    @property
    def windowing(self) -> Windowing:
        """The windowing of its one output."""
        return self.parsed.windowing(self.output)

    @property
    def is_global(self) -> bool:
        """Return whether its one output is in the global window."""
        return type(self.windowing.windowfn) is GlobalWindows

    @property
    def combine_fn(self) -> beam.CombineFn:
        """The CombineFn of a combine or of one of its phases."""
        return self.parsed.combine_fn(self.transform)

    def readers(self) -> list[beam_runner_api_pb2.PTransform]:
        """Return the transforms that read its one output."""
        return list(self.parsed.readers(self.output))

    def before(self) -> Iterator["PlannedStep"]:
        """Yield the steps of the stage that put out its input."""
        inputs = self.transform.inputs.values()
        for operator in self.stage.operators:
            transform = self.parsed.transforms[operator.label]
            if not set(transform.outputs.values()).isdisjoint(inputs):
                yield PlannedStep(self.stage, transform)

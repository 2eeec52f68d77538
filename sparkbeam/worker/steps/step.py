"""A step of a stage, as seen by the operators that may run it."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from apache_beam.internal import pickler
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners import common
from apache_beam.runners.worker import bundle_processor, operations
from apache_beam.transforms import core
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import WindowFn

from sparkbeam.plan.model import Stage
from sparkbeam.plan.operator import Operator
from sparkbeam.plan.pardo_functions import par_do_payload
from sparkbeam.plan.urns import PAR_DO, PROCESS_RESTRICTIONS
from sparkbeam.upstream.beam import par_do_operation
from sparkbeam.upstream.dofn_handover import InProcessPickle
from sparkbeam.worker.keyed.requests import StageStateHandler
from sparkbeam.worker.steps.block_operation import BlockOperation

_BEAMS_OWN = bundle_processor.BeamTransformFactory.create_operation
_Operation = TypeVar("_Operation", bound=operations.DoOperation)
_Combine = TypeVar("_Combine", bound=operations.Operation)
_Made = TypeVar("_Made", bound=BlockOperation)


class Step:
    """A transform of a stage, for which an operation is made.

    Args:
        consumers: the operations that take the outputs, by the names of these.
    """

    def __init__(
        self,
        factory: bundle_processor.BeamTransformFactory,
        transform_id: str,
        consumers: dict[str, list[operations.Operation]],
    ) -> None:
        self.factory = factory
        self.id = transform_id
        self.consumers = consumers
        self.transform: beam_runner_api_pb2.PTransform = factory.descriptor.transforms[transform_id]
        state: Any = factory.state_handler
        self._state: StageStateHandler = state

    @cached_property
    def urn(self) -> str:
        """Kind of the transform."""
        return str(self.transform.spec.urn)

    @property
    def stage(self) -> Stage:
        """The stage of the step."""
        assert self._state.stage is not None
        return self._state.stage

    @property
    def operator(self) -> Operator:
        """Operator that the plan has chosen to run the step."""
        return self._state.operators[self.id]

    @property
    def label(self) -> str:
        """The user's label."""
        return str(self.transform.unique_name)

    @cached_property
    def par_do(self) -> beam_runner_api_pb2.ParDoPayload:
        """The payload of a ParDo."""
        return par_do_payload(self.transform.spec.payload)

    @cached_property
    def dofn(self) -> "DoFnData":
        """The DoFn of a ParDo."""
        spec = self.par_do.do_fn
        known = core.StatelessDoFnInfo.REGISTERED_DOFNS.get(spec.urn)
        if known is not None:
            return DoFnData.alone(known())
        info = core.DoFnInfo.from_runner_api(spec, self.factory.context)
        data = DoFnData(*pickler.loads(info.serialized_dofn_data()))
        needed = self.operator.needed
        return data if needed is None else data._replace(fn=needed.applied(data.fn))

    @cached_property
    def input(self) -> str:
        """The one PCollection that is neither a side input nor one of timers."""
        others: set[str] = set()
        if self.urn == PAR_DO:
            others = {*self.par_do.timer_family_specs, *self.par_do.side_inputs}
        (main,) = [name for tag, name in self.transform.inputs.items() if tag not in others]
        return main

    def windowing(self, pcollection: str) -> Windowing:
        """Return the windowing of a PCollection of the stage."""
        strategy = self.factory.descriptor.pcollections[pcollection].windowing_strategy_id
        return self.factory.context.windowing_strategies.get_by_id(strategy)

    def beams_own(self) -> operations.Operation:
        """Let Beam make its operation of the step."""
        made: operations.Operation = _BEAMS_OWN(self.factory, self.id, self.consumers)
        return made

    def do_operation(self, kind: Callable[..., _Operation], data: "DoFnData") -> _Operation:
        """Let Beam make the operation of a ParDo."""
        payload = self.par_do if self.urn in (PAR_DO, PROCESS_RESTRICTIONS) else None
        handed = InProcessPickle(tuple(data))
        made: Any = par_do_operation(kind, self.factory, self.id, self.consumers, handed, payload)
        operation: _Operation = made
        return operation

    def combine_operation(
        self, kind: Callable[..., _Combine], spec: Any, *windowing: Windowing
    ) -> _Combine:
        """Make an operation of a combine that emits to all readers of its only output."""
        factory = self.factory
        name = common.NameContext(self.label, self.id)
        made: Any = factory.augment_oldstyle_op(
            kind(name, spec, factory.counter_factory, factory.state_sampler, *windowing),
            self.label,
            self.consumers,
        )
        (made.readers,) = self.consumers.values()
        operation: _Combine = made
        return operation

    def block_operation(
        self,
        kind: Callable[..., _Made],
        data: "DoFnData | None" = None,
        window_fn: WindowFn | None = None,
    ) -> _Made:
        """Make an operation that emits blocks to all readers of its only output.

        Args:
            data: the DoFn with its arguments; None for that of the step.
            window_fn: assigns windows to results; None for that of the input.
        """
        made = self.do_operation(kind, self.dofn if data is None else data)
        (made.readers,) = self.consumers.values()
        made.window_fn = window_fn or self.windowing(self.input).windowfn
        made.operator = self.operator
        return made


class DoFnData(NamedTuple):
    """A DoFn as Beam pickles it.

    Attributes:
        args, kwargs: the arguments of ``process`` besides the element.
        windowing: the windowing of the input; None if Beam determines it.
    """

    fn: Any
    args: Any
    kwargs: Any
    side_inputs: Any
    windowing: Windowing | None

    @classmethod
    def alone(cls, fn: Any) -> "DoFnData":
        """Return a DoFn that gets nothing besides the element."""
        return cls(fn, (), {}, [], None)

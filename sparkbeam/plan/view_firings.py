"""Firings of side inputs: the content of a view for a window is its newest firing.

If elements reach a view without a grouping after their ``WindowInto``, their trigger has not been
evaluated yet. A GroupByKey of all of them does that (:func:`group_for_views`), as in Beam's other
runners. Behind a grouping its panes are the firings. Ports from there to the view identify the
firing of each row (:func:`telling_ports`).
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.internal import pickler
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import translations

from sparkbeam.plan.fused_stages import GROUP_BY_KEY
from sparkbeam.plan.model import Exchange, Firings
from sparkbeam.plan.pardo_functions import loaded, par_do_payload, set_dofn
from sparkbeam.plan.urns import ASSIGN_WINDOWS, COMBINE_PER_KEY, FLATTEN, PAR_DO
from sparkbeam.upstream.beam import injects_default, shows_one_element

BY_TIME = b"sparkbeam:by_time:v1"
"""The payload of a GroupByKey whose trigger sees the elements of one timestamp after the other."""

_CODERS = common_urns.coders

Makers = Mapping[str, beam_runner_api_pb2.PTransform]
"""Return the transform that puts out each PCollection."""


class WithTime(beam.DoFn):
    """DoFn that gives all elements one key, and each its timestamp in microseconds."""

    def process(
        self, element: Any, timestamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[tuple[bytes, tuple[int, Any]]]:
        yield b"", (timestamp.micros, element)


class Fired(beam.DoFn):
    """The elements of a firing.

    Args:
        newest: only those with the newest timestamp.
    """

    def __init__(self, *, newest: bool) -> None:
        self._newest = newest

    def process(self, group: tuple[bytes, Iterable[tuple[int, Any]]]) -> Iterator[Any]:
        _, found = group
        newest = max((micros for micros, _ in found), default=0)
        for micros, element in found:
            if micros == newest or not self._newest:
                yield element


class OnlyDefault(beam.DoFn):
    """The default value of a ``CombineGlobally``, if there is no combined value.

    Args:
        fn: gives the combined value, and else the default value.
    """

    def __init__(self, fn: beam.DoFn) -> None:
        self._fn = fn

    def process(self, element: Any, combined: list[Any]) -> Iterator[Any]:
        if not combined:
            yield from self._fn.process(element, combined)


def makers_in(transforms: Iterable[beam_runner_api_pb2.PTransform]) -> Makers:
    """Return the transform that puts out each PCollection."""
    return {pcoll: made for made in transforms for pcoll in made.outputs.values()}


def firings_of(
    pcollection: str, makers: Makers, components: beam_runner_api_pb2.Components
) -> Firings:
    """Return the possible changes of a view's content for a window."""
    strategy = strategy_of(pcollection, components)
    if not _is_grouped(pcollection, makers):
        return Firings.NONE
    once = has_default_trigger(strategy) and not strategy.allowed_lateness
    return Firings.ONE if once else Firings.MANY


def has_default_trigger(strategy: beam_runner_api_pb2.WindowingStrategy) -> bool:
    """Return whether the windows of elements fire at their end and for late elements."""
    return bool(strategy.trigger.WhichOneof("trigger") in (None, "default"))


def strategy_of(
    pcollection: str, components: beam_runner_api_pb2.Components
) -> beam_runner_api_pb2.WindowingStrategy:
    """Return the windowing of a PCollection."""
    return components.windowing_strategies[
        components.pcollections[pcollection].windowing_strategy_id
    ]


def _is_grouped(pcollection: str, makers: Makers) -> bool:
    """Return whether a grouping has fired some elements since their windows were assigned."""
    seen, pending = set[str](), [pcollection]
    while pending:
        read = pending.pop()
        maker = makers.get(read)
        if read in seen or maker is None or maker.spec.urn == ASSIGN_WINDOWS:
            continue
        if maker.spec.urn in (GROUP_BY_KEY, COMBINE_PER_KEY):
            return True
        seen.add(read)
        sides = translations.side_inputs(maker)
        pending += (read for tag, read in maker.inputs.items() if tag not in sides)
    return False


def telling_ports(
    views: Iterable[int], reads: Mapping[int, tuple[Exchange, bool, tuple[int, ...]]]
) -> frozenset[int]:
    """Return the ports whose rows identify their firing.

    Args:
        views: the ports that feed views with firings.
        reads: how the stage that writes each port reads its input: the exchange, whether it is a
            GroupByKey, and the ports.
    """
    found = set[int]()
    pending = list(views)
    while pending:
        tag = pending.pop()
        if tag in found or tag not in reads:
            continue
        found.add(tag)
        exchange, grouped, inputs = reads[tag]
        if not grouped and exchange in (Exchange.FORWARD, Exchange.REBALANCE):
            pending += inputs
    return frozenset(found)


def group_for_views(
    stages: list[translations.Stage], context: translations.TransformContext
) -> list[translations.Stage]:
    """Add the grouping that evaluates the trigger of a view's elements, if there is none."""
    return _Adding(stages, context).stages


class _Adding:
    """Addition of groupings to the stages of single transforms."""

    def __init__(
        self, stages: list[translations.Stage], context: translations.TransformContext
    ) -> None:
        self.stages = stages
        self._context = context
        self._known: dict[tuple[str, bool], str] = {}
        self._makers = makers_in(t for stage in stages for t in stage.transforms)
        for stage in list(stages):
            for transform in stage.transforms:
                for tag in translations.side_inputs(transform):
                    self._regroup(transform, tag)

    def _regroup(self, reader: beam_runner_api_pb2.PTransform, tag: str) -> None:
        read, components = reader.inputs[tag], self._context.components
        if has_default_trigger(strategy_of(read, components)) or _is_grouped(read, self._makers):
            return
        payload = par_do_payload(reader.spec.payload)
        newest = shows_one_element(payload.side_inputs[tag].view_fn.payload)
        if (read, newest) not in self._known:
            self._known[read, newest] = self._grouped(read, reader.environment_id, newest=newest)
        reader.inputs[tag] = self._known[read, newest]

    def _grouped(self, read: str, environment: str, *, newest: bool) -> str:
        """Add the transforms that group a PCollection; return their output."""
        maker = self._makers[read]
        (output,) = (tag for tag, pcollection in maker.outputs.items() if pcollection == read)
        of = f" of {output}" if len(maker.outputs) > 1 else ""
        name = f"{maker.unique_name}/{'Newest' if newest else 'Firings'}{of}"
        element = self._context.components.pcollections[read].coder_id
        coder = partial(added_coder, self._context)
        timed = coder(_CODERS.KV.urn, coder(_CODERS.VARINT.urn), element)
        single = self._context.bytes_coder_id
        pairs = coder(_CODERS.KV.urn, single, timed)
        groups = coder(_CODERS.KV.urn, single, coder(_CODERS.ITERABLE.urn, timed))
        keyed = _added_pcollection(self._context, read, f"{name}/Key", pairs)
        if newest:
            self._discard(keyed)
        grouped = _added_pcollection(self._context, keyed, f"{name}/Group", groups)
        fired = _added_pcollection(self._context, keyed, f"{name}/Fired", element)
        grouping = beam_runner_api_pb2.FunctionSpec(urn=GROUP_BY_KEY, payload=BY_TIME)
        added = [
            _transform(f"{name}/Key", _par_do(WithTime()), read, keyed, environment),
            _transform(f"{name}/Group", grouping, keyed, grouped, ""),
            _transform(f"{name}/Fired", _par_do(Fired(newest=newest)), grouped, fired, environment),
        ]
        at = next(n for n, stage in enumerate(self.stages) if maker in stage.transforms) + 1
        self.stages[at:at] = [
            translations.Stage(made.unique_name, [made], parent=self.stages[at - 1].parent)
            for made in added
        ]
        return fired

    def _discard(self, pcollection: str) -> None:
        """Make the firings of a PCollection discard the contents of earlier firings."""
        components = self._context.components
        strategies = components.windowing_strategies
        discarding = copy.deepcopy(strategy_of(pcollection, components))
        discarding.accumulation_mode = beam_runner_api_pb2.AccumulationMode.DISCARDING
        id = translations.unique_name(strategies, "discarding")
        strategies[id].CopyFrom(discarding)
        components.pcollections[pcollection].windowing_strategy_id = id


def always_combined(
    stages: list[translations.Stage], context: translations.TransformContext
) -> list[translations.Stage]:
    """Make a ``CombineGlobally`` with a default value put out each firing.

    Beam's own expansion looks once at the combined value, as the default value is needed where
    there is nothing.
    """
    makers = makers_in(t for stage in stages for t in stage.transforms)
    for at, stage in reversed(list(enumerate(stages))):
        (transform, *_) = stage.transforms
        combined = _combined_with_default(transform)
        if combined is None or firings_of(combined, makers, context.components) is not Firings.MANY:
            continue
        (tag,) = transform.outputs
        put_out = transform.outputs[tag]
        name = f"{transform.unique_name}/Default"
        coder = context.components.pcollections[put_out].coder_id
        transform.outputs[tag] = _added_pcollection(context, put_out, name, coder)
        context.components.pcollections[put_out].CopyFrom(
            _like(context.components.pcollections[combined], put_out, coder)
        )
        payload = par_do_payload(transform.spec.payload)
        set_dofn(transform, OnlyDefault(loaded(payload.do_fn.payload)[0]))
        both = beam_runner_api_pb2.PTransform(
            unique_name=f"{transform.unique_name}/Either",
            spec=beam_runner_api_pb2.FunctionSpec(urn=FLATTEN),
            inputs={"combined": combined, "default": transform.outputs[tag]},
            outputs={"None": put_out},
        )
        flatten = translations.Stage(both.unique_name, [both], parent=stage.parent)
        stages.insert(at + 1, flatten)
    return stages


def _combined_with_default(transform: beam_runner_api_pb2.PTransform) -> str | None:
    """Return the PCollection that a step puts out, replaced by a default value if it is empty.

    None for other steps.
    """
    sides = list(translations.side_inputs(transform).values())
    if transform.spec.urn != PAR_DO or len(sides) != 1:
        return None
    payload = par_do_payload(transform.spec.payload)
    if payload.do_fn.urn != python_urns.PICKLED_DOFN_INFO:
        return None
    fn = loaded(payload.do_fn.payload)[0]
    return sides[0] if injects_default(getattr(fn, "process", None)) else None


def added_coder(context: translations.TransformContext, urn: str, *parts: str) -> str:
    """Add one of Beam's own coders, unless it is there; return its id."""
    spec = beam_runner_api_pb2.FunctionSpec(urn=urn)
    coder = beam_runner_api_pb2.Coder(spec=spec, component_coder_ids=parts)
    return str(context.add_or_get_coder_id(coder))


def _added_pcollection(
    context: translations.TransformContext, like: str, name: str, coder: str
) -> str:
    """Add a PCollection with the windowing of another one."""
    pcollections = context.components.pcollections
    id = translations.unique_name(pcollections, name)
    pcollections[id].CopyFrom(_like(pcollections[like], id, coder))
    return id


def _like(
    pcollection: beam_runner_api_pb2.PCollection, name: str, coder: str
) -> beam_runner_api_pb2.PCollection:
    found = copy.deepcopy(pcollection)
    found.unique_name, found.coder_id = name, coder
    return found


def _par_do(fn: beam.DoFn) -> beam_runner_api_pb2.FunctionSpec:
    described = beam_runner_api_pb2.FunctionSpec(
        urn=python_urns.PICKLED_DOFN_INFO, payload=pickler.dumps((fn, (), {}, [], None))
    )
    payload = beam_runner_api_pb2.ParDoPayload(do_fn=described)
    return beam_runner_api_pb2.FunctionSpec(urn=PAR_DO, payload=payload.SerializeToString())


def _transform(
    name: str, spec: beam_runner_api_pb2.FunctionSpec, read: str, put_out: str, environment: str
) -> beam_runner_api_pb2.PTransform:
    return beam_runner_api_pb2.PTransform(
        unique_name=name,
        spec=spec,
        inputs={"0": read},
        outputs={"None": put_out},
        environment_id=environment,
    )

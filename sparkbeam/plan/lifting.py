"""Combines in their parts: partial accumulators, a grouping, their merge, the outputs.

Beam lifts a combine only if its trigger need not see each element. Here all combines are lifted.
With a non-default trigger, partial accumulators carry their number of elements.

- In batch all elements of a window are there before its first pane. So the grouping is that of the
  default trigger, and behind the merge :data:`~sparkbeam.plan.urns.FIRE` puts out the panes
  that the trigger has for a window with as many elements.
- In streaming the trigger of the grouping counts an accumulator as many times.
"""

import copy
from collections.abc import Callable, Iterator

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.runners.portability.fn_api_runner import translations
from apache_beam.transforms.core import CombineFn

from sparkbeam.accumulators.counted_accumulators import CountingCombineFn
from sparkbeam.plan.payloads import own_payload
from sparkbeam.plan.urns import COMBINE_PER_KEY, FIRE
from sparkbeam.plan.view_firings import has_default_trigger

_CODERS = common_urns.coders


def lift_in_batch(
    stages: list[translations.Stage], context: translations.TransformContext
) -> Iterator[translations.Stage]:
    """Lift all combines; triggers fire behind their groupings, by the number of elements."""
    return _lift(stages, context, _fired)


def lift_in_streaming(
    stages: list[translations.Stage], context: translations.TransformContext
) -> Iterator[translations.Stage]:
    """Lift all combines; their groupings evaluate the trigger."""
    return _lift(stages, context, _counted_before)


def _lift(
    stages: list[translations.Stage],
    context: translations.TransformContext,
    of_triggered: Callable[
        [translations.Stage, translations.TransformContext], Iterator[translations.Stage]
    ],
) -> Iterator[translations.Stage]:
    """Lift combines; those with a non-default trigger are lifted in another way."""
    for stage in stages:
        if _is_triggered(stage, context):
            yield from of_triggered(stage, context)
        else:
            yield from translations.lift_combiners([stage], context)


def _is_triggered(stage: translations.Stage, context: translations.TransformContext) -> bool:
    """Return whether a stage is a combine with another trigger than the default one."""
    (transform, *_) = stage.transforms
    if transform.spec.urn != COMBINE_PER_KEY:
        return False
    return not has_default_trigger(_windowing(transform, context))


def _windowing(
    combine: beam_runner_api_pb2.PTransform, context: translations.TransformContext
) -> beam_runner_api_pb2.WindowingStrategy:
    """Return the windowing of a combine's input."""
    components = context.components
    return components.windowing_strategies[_input(combine, context).windowing_strategy_id]


def _input(
    combine: beam_runner_api_pb2.PTransform, context: translations.TransformContext
) -> beam_runner_api_pb2.PCollection:
    (pcollection,) = combine.inputs.values()
    return context.components.pcollections[pcollection]


def _fired(
    stage: translations.Stage, context: translations.TransformContext
) -> Iterator[translations.Stage]:
    """Yield the parts of a combine in batch."""
    *counted, _ = _lifted(stage, context, _counting(stage.transforms[0], context))
    *_, merge, extract = _lifted(stage, context, stage.transforms[0].spec.payload)
    pcollections = context.components.pcollections
    once = _once(stage.transforms[0], context)
    for part in counted:
        pcollections[part.transforms[0].outputs["out"]].windowing_strategy_id = once
    fire = merge.transforms[0]
    fire.unique_name = f"{stage.transforms[0].unique_name}/Fire"
    fire.spec.urn = FIRE
    fire.inputs["in"] = counted[-1].transforms[0].outputs["out"]
    # So that the step knows the trigger.
    pcollections[fire.outputs["out"]].windowing_strategy_id = _input(
        stage.transforms[0], context
    ).windowing_strategy_id
    merge.name = fire.unique_name
    yield from (*counted, merge, extract)


def _counted_before(
    stage: translations.Stage, context: translations.TransformContext
) -> Iterator[translations.Stage]:
    """Yield the parts of a combine in streaming."""
    partial, *_ = _lifted(stage, context, _counting(stage.transforms[0], context))
    _, group, *others = _lifted(stage, context, stage.transforms[0].spec.payload)
    group.transforms[0].inputs["in"] = partial.transforms[0].outputs["out"]
    yield from (partial, group, *others)


def _lifted(
    stage: translations.Stage, context: translations.TransformContext, payload: bytes
) -> list[translations.Stage]:
    """Return the four parts of a combine with a payload, for any trigger."""
    transform = copy.deepcopy(stage.transforms[0])
    transform.spec.payload = payload
    changed = copy.copy(stage)
    changed.transforms = [transform]
    windowing = _windowing(transform, context)
    trigger = copy.deepcopy(windowing.trigger)
    _fire_once(windowing)
    parts = list(translations.lift_combiners([changed], context))
    windowing.trigger.CopyFrom(trigger)
    return parts


def _counting(
    combine: beam_runner_api_pb2.PTransform, context: translations.TransformContext
) -> bytes:
    """Return the payload of a combine whose accumulators have the number of their elements."""
    payload = own_payload(COMBINE_PER_KEY, combine.spec.payload)
    of_pipeline = PipelineContext(context.components)
    counting = CountingCombineFn(CombineFn.from_runner_api(payload.combine_fn, of_pipeline))
    payload.combine_fn.CopyFrom(counting.to_runner_api(of_pipeline))
    count = _coder(context, _CODERS.VARINT.urn)
    payload.accumulator_coder_id = _coder(
        context, _CODERS.KV.urn, count, payload.accumulator_coder_id
    )
    encoded: bytes = payload.SerializeToString(deterministic=True)
    return encoded


def _coder(context: translations.TransformContext, urn: str, *parts: str) -> str:
    spec = beam_runner_api_pb2.FunctionSpec(urn=urn)
    coder = beam_runner_api_pb2.Coder(spec=spec, component_coder_ids=parts)
    return str(context.add_or_get_coder_id(coder))


def _once(combine: beam_runner_api_pb2.PTransform, context: translations.TransformContext) -> str:
    """Return the windowing of a combine's input for windows that fire once."""
    once = copy.deepcopy(_windowing(combine, context))
    _fire_once(once)
    once.accumulation_mode = beam_runner_api_pb2.AccumulationMode.DISCARDING
    once.allowed_lateness = 0
    strategies = context.components.windowing_strategies
    known = (id for id, strategy in sorted(strategies.items()) if strategy == once)
    id = next(known, None) or translations.unique_name(strategies, "once")
    strategies[id].CopyFrom(once)
    return str(id)


def _fire_once(windowing: beam_runner_api_pb2.WindowingStrategy) -> None:
    """Give a windowing the default trigger, in place."""
    windowing.trigger.Clear()
    windowing.trigger.default.SetInParent()

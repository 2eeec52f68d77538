"""Combines in their parts: partial accumulators, a grouping, their merge, the outputs.

Beam lifts a combine only if its trigger need not see each element. Here all combines are lifted.
With a non-default trigger, partial accumulators carry their number of elements.

- In batch all elements of a window are there before its first pane. So the grouping is that of the
  default trigger, and behind the merge :data:`~sparkbeam.plan.urns.FIRE` puts out the panes
  that the trigger has for a window with as many elements.
- In streaming the trigger of the grouping counts an accumulator as many times.
"""

import copy
from collections.abc import Iterator

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.runners.portability.fn_api_runner import translations
from apache_beam.transforms.core import CombineFn

from sparkbeam.accumulators.counted_accumulators import CountingCombineFn
from sparkbeam.plan.urns import COMBINE_PER_KEY, FIRE, own_payload
from sparkbeam.plan.view_firings import added_coder, has_default_trigger, strategy_of

_CODERS = common_urns.coders


def lift(
    stages: list[translations.Stage], context: translations.TransformContext, *, streaming: bool
) -> Iterator[translations.Stage]:
    """Lift all combines.

    Args:
        streaming: their groupings evaluate the trigger; in batch triggers fire behind their
            groupings, by the number of elements.
    """
    for stage in stages:
        (transform, *_) = stage.transforms
        is_combine = transform.spec.urn == COMBINE_PER_KEY
        if not is_combine or has_default_trigger(_windowing(transform, context)):
            yield from translations.lift_combiners([stage], context)
        elif streaming:
            yield from _counted_before(stage, context)
        else:
            yield from _fired(stage, context)


def _windowing(
    combine: beam_runner_api_pb2.PTransform, context: translations.TransformContext
) -> beam_runner_api_pb2.WindowingStrategy:
    """Return the windowing of a combine's input."""
    (pcollection,) = combine.inputs.values()
    return strategy_of(pcollection, context.components)


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
    (read,) = stage.transforms[0].inputs.values()
    with_trigger = pcollections[read].windowing_strategy_id
    pcollections[fire.outputs["out"]].windowing_strategy_id = with_trigger
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
    count = added_coder(context, _CODERS.VARINT.urn)
    payload.accumulator_coder_id = added_coder(
        context, _CODERS.KV.urn, count, payload.accumulator_coder_id
    )
    encoded: bytes = payload.SerializeToString(deterministic=True)
    return encoded


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

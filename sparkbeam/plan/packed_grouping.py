"""Which GroupByKeys get columns: they have many keys in a row."""

import json
from dataclasses import replace

from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners import pipeline_context

from sparkbeam.plan.grouping import makes_totals
from sparkbeam.plan.model import Evaluator, Exchange, Layout, Plan, Port, Stage
from sparkbeam.plan.source_columns import Begins

_TOGETHER = frozenset([Evaluator.GLOBAL, Evaluator.WINDOWED])


def in_packs(plan: Plan) -> Plan:
    """The plan with such GroupByKeys of a batch pipeline; the others are as they were."""
    begins = Begins()
    for stage in () if plan.streaming else plan.stages:
        if _may_group(plan, stage) and any(begins.pairs(plan, tag) for tag in stage.inputs):
            plan = _packed(plan, frozenset(stage.inputs))
    return plan


def _may_group(plan: Plan, stage: Stage) -> bool:
    """Whether all that read what a stage reads may group many keys at once."""
    readers = [one for one in plan.stages if not set(stage.inputs).isdisjoint(one.inputs)]
    return all(map(_takes_packs, readers)) and all(
        set(one.inputs) == set(stage.inputs) for one in readers
    )


def _takes_packs(stage: Stage) -> bool:
    how = stage.grouping
    if stage.exchange is not Exchange.BY_KEY or how is None or how.combines:
        return False
    if how.evaluator not in _TOGETHER or not stage.in_columns:
        return False
    descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(stage.descriptor)
    assert stage.grouped is not None
    strategy = descriptor.pcollections[stage.grouped].windowing_strategy_id
    strategies = pipeline_context.PipelineContext(descriptor).windowing_strategies
    return makes_totals(strategies.get_by_id(strategy).windowfn)


def _packed(plan: Plan, tags: frozenset[int]) -> Plan:
    """The plan with packs in some ports and on the way to all that read them."""
    stages = []
    for stage in plan.stages:
        ends: list[str] = []
        if not tags.isdisjoint(stage.inputs):
            assert stage.grouping is not None
            grouping = replace(
                stage.grouping,
                evaluator=Evaluator.PACKED,
                reason=f"{stage.grouping.reason}, and pairs come as columns",
            )
            stage = replace(stage, grouping=grouping, layout=Layout.PACKED_GROUPS)
            ends.append(stage.source_id)
        ends += [port.transform_id for port in stage.ports if port.tag in tags]
        ports = tuple(_port(port) if port.tag in tags else port for port in stage.ports)
        stages.append(_with_ends(replace(stage, ports=ports), ends) if ends else stage)
    return replace(plan, stages=tuple(stages))


def _port(port: Port) -> Port:
    return replace(port, layout=Layout.PACKED_GROUPS)


def _with_ends(stage: Stage, ends: list[str]) -> Stage:
    """A stage some of whose sources and sinks are told the layout."""
    descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(stage.descriptor)
    for end in ends:
        spec = descriptor.transforms[end].spec
        told = json.loads(spec.payload) | {"layout": Layout.PACKED_GROUPS.value}
        spec.payload = json.dumps(told).encode()
    return replace(stage, descriptor=descriptor.SerializeToString(deterministic=True))

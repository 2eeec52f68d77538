"""Selection of the GroupByKeys that get columns: those with many keys in a row."""

from dataclasses import replace

from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.transforms.window import GlobalWindows

from sparkbeam.plan.grouping import GroupStrategy, stamp_of
from sparkbeam.plan.model import Exchange, Plan, Stage
from sparkbeam.plan.parsed_stage import parsed
from sparkbeam.plan.row_formats import GroupRows

PACKED = GroupRows(packed=True)


def may_be_packed(plan: Plan, stage: Stage) -> bool:
    """Return whether all readers of a stage's input may group many keys at once."""
    readers = [one for one in plan.stages if not set(stage.inputs).isdisjoint(one.inputs)]
    return all(map(_takes_packs, readers)) and all(
        set(one.inputs) == set(stage.inputs) for one in readers
    )


def _takes_packs(stage: Stage) -> bool:
    how = stage.grouping
    if stage.exchange is not Exchange.BY_KEY or how is None or how.combines:
        return False
    if how.strategy is GroupStrategy.TRIGGERS or how.format.stored:
        return False
    assert stage.grouped is not None
    windowing = parsed(stage).windowing(stage.grouped)
    window_fn = windowing.windowfn
    in_intervals = isinstance(window_fn.get_window_coder(), IntervalWindowCoder)
    has_spans = in_intervals or isinstance(window_fn, GlobalWindows)
    return has_spans and stamp_of(windowing) is None


def with_packed_groups(plan: Plan, stage: Stage) -> Plan:
    """Return a plan in which the GroupByKey that a stage reads is packed, for all its readers."""
    tags, stages = frozenset(stage.inputs), []
    for each in plan.stages:
        ports = (replace(port, format=PACKED) if port.tag in tags else port for port in each.ports)
        each = replace(each, ports=tuple(ports))
        if not tags.isdisjoint(each.inputs):
            assert each.grouping is not None
            reason = f"{each.grouping.reason}, and pairs come as columns"
            grouping = replace(each.grouping, format=PACKED, reason=reason)
            each = replace(each, grouping=grouping, format=PACKED)
        stages.append(each)
    return replace(plan, stages=tuple(stages))

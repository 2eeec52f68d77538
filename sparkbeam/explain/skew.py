"""Keys with far more data than others, and what helps."""

from collections.abc import Iterable

from sparkbeam.explain.join_outcomes import JOINS
from sparkbeam.explain.shuffles import Nodes, first, host_of, sizes_of
from sparkbeam.metrics.run_summary import StageSummary
from sparkbeam.plan.model import Exchange, Layout, Plan, Stage
from sparkbeam.progress import words
from sparkbeam.upstream.spark import PlanNode

LEAST = 256 << 20
"""A partition is told from so many bytes on, as Spark has it of joins."""

TIMES = 5
"""So many times as large as the median it has to be, as well."""

_JOIN = (
    "Spark divides the partitions of a Join where `how` allows that, at the ends of what single "
    "tasks have written: let more of them write the side"
)
_COMBINE = (
    "CombinePerKey(…).with_hot_key_fanout(…) merges the accumulators of a key in several tasks"
)
_GROUP = (
    "sparkbeam.Join in the place of a CoGroupByKey divides such keys between tasks, and "
    "CombinePerKey in the place of a GroupByKey adds up before the shuffle, with "
    "with_hot_key_fanout(…) in several tasks behind it"
)
_STATE = "the elements and the state of a key are in one task: a finer key spreads them"


def hot_keys(
    plan: Plan, graphs: Iterable[list[PlanNode]], summary: Iterable[StageSummary]
) -> dict[str, str]:
    """How much larger the largest partition of a stage is than others, with the remedy.

    Args:
        plan: what has run.
        graphs: Spark's plans, each as its operators; none of a streaming query.
        summary: what has been done, stage by stage.

    Returns:
        Words by the ids of stages; of those with even partitions there are none.
    """
    by_id = [{node.id: node for node in graph} for graph in graphs]
    found = {}
    for stage, done in zip(plan.stages, summary, strict=True):
        if stage.exchange not in (Exchange.BY_KEY, Exchange.JOIN):
            continue
        sizes = _of_layer(done) if plan.streaming else _of_exchanges(stage, by_id)
        if sizes is not None and sizes[0] > max(LEAST, TIMES * sizes[1]):
            found[stage.id] = f"{_told(*sizes)}: {_remedy(stage)}"
    return found


def _of_layer(done: StageSummary) -> tuple[int, int] | None:
    """The largest partition and the one in the middle of the shuffle before a layer."""
    sizes = [(spark.largest_bytes, spark.median_bytes) for spark in done.spark]
    return max(sizes, default=None)


def _of_exchanges(stage: Stage, by_id: Iterable[Nodes]) -> tuple[int, int] | None:
    """The same of the shuffle before a stage, which may share tasks with others, or of a side."""
    for nodes in by_id:
        host = host_of(stage, nodes)
        if host is None:
            continue
        tops = host.children
        join = first(host, nodes, tuple(JOINS)) if stage.join is not None else None
        sizes = [sizes_of(nodes[top], nodes) for top in (join.children if join else tops)]
        known = [each for each in sizes if each is not None]
        if known:
            return max(known)
    return None


def _told(largest: int, median: int) -> str:
    times = f", {largest / median:,.0f} times as much as the median" if median else ""
    return f"the largest partition has {words.size(largest)}{times}"


def _remedy(stage: Stage) -> str:
    if stage.join is not None:
        return _JOIN
    if stage.grouping is None or stage.layout in (Layout.KEYED, Layout.TIME_SORTED):
        return _STATE
    return _COMBINE if stage.grouping.combines else _GROUP
